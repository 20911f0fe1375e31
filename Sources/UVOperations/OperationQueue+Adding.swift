public import Foundation

extension OperationQueue {
  /// Adds `operations`, in order. Any thread, and async code too.
  ///
  /// They are in the queue when this returns.
  public func add(_ operations: Operation...) { add(operations) }

  /// The same for an array.
  public func add(_ operations: [Operation]) {
    for case let operation as AsynchronousOperation in operations { operation.willBeQueued() }
    addOperations(operations, waitUntilFinished: false)
  }

  /// Adds `operation`, waits until it has finished, and returns what it produced.
  ///
  /// It is in the queue before the task waits, so it must not be in one before: for one that is, await ``ResultOperation/value``. What it
  /// depends on has to be started or in a queue too, also what it was mapped from. Cancelling the task cancels the operation and ends the waiting.
  ///
  /// - Throws: what the operation failed with, and `CancellationError` if the task is cancelled first.
  public func run<Output: Sendable>(_ operation: ResultOperation<Output>) async throws -> Output {
    add(operation)
    return try await operation.value(cancellingOperation: true)
  }
  /// Waits until no operation is left in the queue, those included that are added meanwhile.
  ///
  /// For async code, which must not block in `waitUntilAllOperationsAreFinished()`. Cancelling the task has no effect: cancel the operations.
  public func waitUntilEmpty() async {
    while case let operations = operations, !operations.isEmpty {
      for operation in operations {
        await withUnsafeContinuation { continuation in
          operation.whenItHasFinished { _ in continuation.resume() }
        }
      }
    }
  }
}
