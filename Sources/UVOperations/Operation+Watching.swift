import Foundation

extension Operation {
  /// Calls `body` once when the operation, which may be Foundation's, has finished.
  ///
  /// On the thread that handlers of ours are called on, and on a global queue for a foreign operation.
  func whenItHasFinished(_ body: @escaping @Sendable (Operation) -> Void) {
    if let operation = self as? AsynchronousOperation { return operation.addHandler { body($0) } }
    let watcher = BlockOperation { body(self) }
    watcher.addDependency(self)
    watchers.addOperation(watcher)
  }
}

/// Where operations run that wait for another's end.
private let watchers = OperationQueue()
