/// The `finish` of an ``AsyncBlockOperation`` was dropped without having been called, so nothing would ever have finished the operation.
///
/// Usually one way out of the block, or an error path of what the block calls, forgets it.
public struct OperationAbandoned: Error, Hashable, CustomStringConvertible {
  /// The name of the operation, or its type's.
  public let operation: String
  /// Where the operation was made, such as `MyApp/Upload.swift`.
  public let file: String
  public let line: UInt

  public init(operation: String, file: String, line: UInt) {
    self.operation = operation
    self.file = file
    self.line = line
  }

  public var description: String {
    "\(operation), made at \(file):\(line): its `finish` was dropped without being called"
  }
}
