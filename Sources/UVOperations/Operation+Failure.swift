import Foundation

extension Operation {
  /// Why operations that depend on this finished one must not run, or `nil` if they may.
  ///
  /// Of a foreign operation only its cancellation is known. Any thread.
  var failureForDependents: (any Error)? {
    if let operation = self as? AsynchronousOperation { return operation.failure }
    return isCancelled ? CancellationError() : nil
  }
}
