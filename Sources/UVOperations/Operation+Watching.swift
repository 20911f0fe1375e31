import Foundation

extension Operation {
  /// Calls `body` once when the operation, which may be Foundation's, has finished.
  ///
  /// On the thread that handlers of ours are called on, and on a global queue for a foreign operation; at once, on this thread, if it has
  /// finished.
  func whenItHasFinished(_ body: @escaping @Sendable (Operation) -> Void) {
    if let operation = self as? AsynchronousOperation { return operation.addHandler { body($0) } }
    let watcher = Watcher { body(self) }
    watcher.addDependency(self)
    watcher.start()  // Waits for the dependency, and is held meanwhile.
  }
}

/// One of ours, because Foundation may overlook that a dependency of its own has finished.
private final class Watcher: AsynchronousOperation, @unchecked Sendable {
  // Unchecked: as AsynchronousOperation.
  private let body: @Sendable () -> Void

  init(_ body: @escaping @Sendable () -> Void) { self.body = body }

  override func main() {
    body()
    finish()
  }
}
