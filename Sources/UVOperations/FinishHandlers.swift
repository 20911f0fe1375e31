/// What is to be called when an operation finishes or is asked to stop.
///
/// A value that the operation guards with a lock; handlers are called with the lock free.
struct FinishHandlers: Sendable {
  struct Handler: Sendable {
    /// Identifies a handler that only resumes a task, which never runs user code and can be taken back.
    let waiter: (any AnyObject & Sendable)?
    let run: @Sendable (AsynchronousOperation) -> Void
  }

  // Most operations have one handler, for which an array would be an allocation.
  private var first: Handler?
  private var others: ArraySlice<Handler> = []
  private var isClosed = false
  private var stopHandler = StopHandler.none

  private enum StopHandler: Sendable {
    case none
    case waiting(@Sendable () -> Void)
    case called
    case tooLate
  }

  /// Keeps `handler` for later. Returns false if it is too late and the caller has to run it.
  mutating func add(_ handler: Handler) -> Bool {
    if isClosed { return false }
    if first == nil { first = handler } else { others.append(handler) }
    return true
  }

  mutating func remove(waiter: AnyObject) {
    others.removeAll { $0.waiter === waiter }
    if let first, first.waiter === waiter { self.first = others.popFirst() }
  }

  /// Returns the handler that has waited longest. When there is none, later ones are too late.
  mutating func takeNext() -> Handler? {
    guard let next = first else {
      isClosed = true
      return nil
    }
    first = others.popFirst()
    return next
  }

  /// Keeps `handler` for a stop. Returns whether the stop has come already, and what the caller has to release, which
  /// is user code and must not happen under the lock.
  mutating func setStopHandler(
    _ handler: @escaping @Sendable () -> Void
  ) -> (runsNow: Bool, replaced: (@Sendable () -> Void)?) {
    switch stopHandler {
    case .none:
      stopHandler = .waiting(handler)
      return (false, nil)
    case .waiting(let replaced):
      stopHandler = .waiting(handler)
      return (false, replaced)
    case .called: return (true, nil)
    case .tooLate: return (false, nil)
    }
  }

  /// Returns the handler to call now that the work has to stop.
  mutating func takeStopHandler() -> (@Sendable () -> Void)? {
    defer { stopHandler = .called }
    return waitingStopHandler
  }

  /// Returns the handler to release now that the operation has finished.
  mutating func endStopping() -> (@Sendable () -> Void)? {
    defer { stopHandler = .tooLate }
    return waitingStopHandler
  }

  private var waitingStopHandler: (@Sendable () -> Void)? {
    if case .waiting(let handler) = stopHandler { handler } else { nil }
  }
}
