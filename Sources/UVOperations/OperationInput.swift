internal import Locking

/// A value for an operation that is evaluated when the operation starts, usually from the output of a dependency.
///
/// ```swift
/// final class Count: ResultOperation<Int>, @unchecked Sendable {
///   private let text: OperationInput<String>
///   init(_ text: @autoclosure @escaping @Sendable () throws -> String) { self.text = OperationInput(text) }
///   override func main() { finish(Result { try text.take().count }) }
///   override func releaseResources() { text.release() }
/// }
/// ```
///
/// Any thread. What the expression holds (often other operations) is released when it was evaluated, or by
/// ``release()``.
public final class OperationInput<Value>: Sendable {
  private let expression: Lock<(@Sendable () throws -> Value)?>

  public init(_ expression: @escaping @Sendable () throws -> Value) {
    self.expression = Lock(expression)
  }

  /// Evaluates the input on this thread.
  ///
  /// Once only: asking again, or after ``release()``, traps.
  ///
  /// - Throws: what the expression throws, such as the error of a failed operation.
  public func take() throws -> Value {
    guard let expression = expression.withLock({ $0.take() }) else {
      // There is no value to go on with, and no error that the caller could have expected.
      fatalError("an operation's input can be taken only once, in main()")
    }
    return try expression()
  }

  /// Drops the input without evaluating it. Does nothing if that is done already.
  public func release() {
    _ = expression.withLock { $0.take() }
  }
}
