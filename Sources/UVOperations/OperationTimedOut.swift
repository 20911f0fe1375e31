/// An operation did not finish within its ``ResultOperation/timeout``.
public struct OperationTimedOut: Error, Hashable, CustomStringConvertible {
  /// The name of the operation, or its type's.
  public let operation: String
  /// How long the operation was allowed to take.
  public let timeout: Duration

  public init(operation: String, timeout: Duration) {
    self.operation = operation
    self.timeout = timeout
  }

  public var description: String { "\(operation): timed out after \(timeout)" }
}
