/// The output of an operation was asked for before it had finished.
///
/// Usually the operation that asks does not depend on the one it asks: `addDependency` is missing.
public struct OperationNotFinished: Error, Hashable, CustomStringConvertible {
  /// The name of the operation, or its type's.
  public let operation: String

  public init(operation: String) { self.operation = operation }

  public var description: String { "\(operation): has not finished, so there is no output yet" }
}
