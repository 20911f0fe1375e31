extension ResultOperation {
  /// Makes an operation that depends on this one and turns its output into another.
  ///
  /// Any thread. The new operation has to be put into a queue, or started, like any other. `transform` is called once, on the thread that
  /// starts it; when this operation fails or is cancelled, the new one fails with the same error instead.
  public func map<NewOutput: Sendable>(
    _ transform: @escaping @Sendable (Output) throws -> NewOutput
  ) -> ResultOperation<NewOutput> {
    let next = DerivedOperation { try transform(self.output) }
    next.addDependency(self)
    return next
  }

  /// Makes an operation that depends on this one and goes on in spite of its failure: with its output, or with what `replacement` makes
  /// of the error, which is a `CancellationError` if this operation was cancelled.
  ///
  /// Otherwise as ``map(_:)``. The new operation starts whatever its dependencies failed with, also those that are added later.
  public func recover(
    _ replacement: @escaping @Sendable (any Error) throws -> Output
  ) -> ResultOperation<Output> {
    let next = DerivedOperation<Output> {
      do { return try self.output } catch { return try replacement(error) }
    }
    next.startsAfterFailedDependencies = true
    next.addDependency(self)
    return next
  }
}

/// Finishes with the value of an expression.
private final class DerivedOperation<Output: Sendable>: ResultOperation<Output>, @unchecked Sendable
{
  // Unchecked: as ResultOperation.
  private let expression: OperationInput<Output>

  init(_ expression: @escaping @Sendable () throws -> Output) {
    self.expression = OperationInput(expression)
  }

  override func main() { finish(Result { try expression.take() }) }

  override func releaseResources() { expression.release() }
}
