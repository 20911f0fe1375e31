import Synchronization

/// How far an asynchronous operation has come: one word, changed by single atomic steps.
///
/// Each method makes one transition and returns what its caller has to do next; nothing is called back in here.
/// All transitions happen on one atomic, so of two that race exactly one sees the other. What a thread wrote
/// before its transition is visible to every thread that sees the transition (acquire and release).
struct OperationState: ~Copyable, Sendable {
  /// What has happened to the operation so far. Bits are only ever added.
  private struct Events: OptionSet {
    let rawValue: UInt16

    /// `start()` was called.
    static let startRequested = Events(rawValue: 1 << 0)
    /// Foundation's start was entered; this happens once.
    static let started = Events(rawValue: 1 << 1)
    /// `main()` is called, or was: decided in the same step as `started`.
    static let mainCalled = Events(rawValue: 1 << 2)
    /// Foundation's start has returned, and `main()` with it.
    static let mainReturned = Events(rawValue: 1 << 3)
    /// Somebody has the right to finish the operation and may be storing its result.
    static let finishClaimed = Events(rawValue: 1 << 4)
    /// The result is stored.
    static let finishRequested = Events(rawValue: 1 << 5)
    static let finished = Events(rawValue: 1 << 6)
    static let cancelled = Events(rawValue: 1 << 7)
    /// The work was asked to stop, by `cancel()` or by a timeout.
    static let stopRequested = Events(rawValue: 1 << 8)
    /// `start()` found the operation not ready and left the start to whoever makes it ready.
    static let startWaits = Events(rawValue: 1 << 9)
    /// Somebody read `isReady`, as every queue does when it takes an operation in.
    static let readinessRead = Events(rawValue: 1 << 10)
    /// A dependency was added at some time.
    static let hadDependencies = Events(rawValue: 1 << 11)
    /// A completion block was set at some time.
    static let hadCompletionBlock = Events(rawValue: 1 << 12)
    /// A timeout was set at some time.
    static let hadTimeout = Events(rawValue: 1 << 13)
    /// Somebody read `isReady` while it was false.
    static let readAsWaiting = Events(rawValue: 1 << 14)
    /// The operation was given to a queue by one of our methods.
    static let queued = Events(rawValue: 1 << 15)
  }

  /// What the thread that made a transition does next.
  enum Next {
    case nothing
    /// Tell the work to stop.
    case stop
    /// Finish: everything that has to come first has come.
    case complete
  }

  private let word = Atomic<UInt16>(0)

  private var events: Events { Events(rawValue: word.load(ordering: .acquiring)) }

  /// Adds `event` and returns what was there before.
  private func add(_ event: Events) -> Events {
    Events(rawValue: word.bitwiseOr(event.rawValue, ordering: .acquiringAndReleasing).oldValue)
  }

  /// Whether a start waits for the operation to become ready.
  var hasWaitingStart: Bool {
    let events = events
    return events.contains(.startWaits) && !events.contains(.started)
  }

  /// Whether the operation is certainly in no queue and has no dependencies.
  var isOnItsOwn: Bool { !events.contains(.readinessRead) }

  var isStarted: Bool { events.contains(.started) }
  var isFinishClaimed: Bool { events.contains(.finishClaimed) }
  var isFinished: Bool { events.contains(.finished) }
  var isCancelled: Bool { events.contains(.cancelled) }
  var isStopRequested: Bool { events.contains(.stopRequested) }

  var isExecuting: Bool {
    let events = events
    return events.contains(.mainCalled) && !events.contains(.finished)
  }

  var hadDependencies: Bool { events.contains(.hadDependencies) }

  func dependencyIsAdded() { _ = add(.hadDependencies) }

  var hadCompletionBlock: Bool { events.contains(.hadCompletionBlock) }

  func completionBlockIsSet() { _ = add(.hadCompletionBlock) }

  var hadTimeout: Bool { events.contains(.hadTimeout) }

  func timeoutIsSet() { _ = add(.hadTimeout) }

  /// Returns whether the operation may still be given to a queue.
  func enqueue() -> Bool { add(.queued).isDisjoint(with: [.queued, .started, .finished]) }

  func readinessIsRead() {
    if !events.contains(.readinessRead) { _ = add(.readinessRead) }
  }

  var wasReadAsWaiting: Bool { events.contains(.readAsWaiting) }

  func isReadAsWaiting() {
    if !wasReadAsWaiting { _ = add(.readAsWaiting) }
  }

  /// Returns whether this is the first request to start.
  func requestStart() -> Bool { !add(.startRequested).contains(.startRequested) }

  /// Leaves the start to whoever makes the operation ready. The caller looks again afterwards, in case that has happened.
  func letStartWait() { _ = add(.startWaits) }

  /// Returns whether `main()` is to be called, or `nil` if the operation was started before.
  func begin() -> Bool? {
    var old = events
    while !old.contains(.started) {
      let callsMain = old.isDisjoint(with: [.cancelled, .finishClaimed])
      let new = old.union(callsMain ? [.started, .mainCalled] : .started)
      if replace(&old, by: new) { return callsMain }
    }
    return nil
  }

  func mainDidReturn() -> Next {
    let old = add(.mainReturned)
    if old.contains(.finishRequested) { return .complete }
    if old.isSuperset(of: [.mainCalled, .stopRequested]), !old.contains(.finishClaimed) {
      return .stop
    }
    return .nothing
  }

  /// Marks the operation cancelled, unless it has finished. Returns whether this was the first time, and what is next.
  func cancel() -> (isFirst: Bool, next: Next) {
    var old = events
    while old.isDisjoint(with: [.cancelled, .finished]) {
      if replace(&old, by: old.union([.cancelled, .stopRequested])) {
        return (true, nextForStop(after: old))
      }
    }
    return (false, .nothing)
  }

  /// Asks the work to stop without marking the operation cancelled.
  func requestStop() -> Next { nextForStop(after: add(.stopRequested)) }

  private func nextForStop(after old: Events) -> Next {
    let isRunning = old.isSuperset(of: [.mainCalled, .mainReturned])
    return isRunning && old.isDisjoint(with: [.stopRequested, .finishClaimed]) ? .stop : .nothing
  }

  /// Returns whether the caller may finish the operation: the first one may.
  func claimFinish() -> Bool { !add(.finishClaimed).contains(.finishClaimed) }

  /// Called once, by the one who claimed the finish, when the result is stored.
  func requestFinish() -> Next {
    add(.finishRequested).contains(.mainReturned) ? .complete : .nothing
  }

  /// Called once, by the one who was told to complete.
  func markFinished() { _ = add(.finished) }

  private func replace(_ old: inout Events, by new: Events) -> Bool {
    let (exchanged, found) = word.compareExchange(
      expected: old.rawValue, desired: new.rawValue, ordering: .acquiringAndReleasing)
    old = Events(rawValue: found)
    return exchanged
  }
}
