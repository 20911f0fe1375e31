/// A piece of work on its way to a loop thread.
enum Job: Sendable {
  /// A job of the Swift concurrency runtime, of a task that prefers the loop. It must be run, even if the loop has closed.
  case task(UnownedJob)
  /// The same of an actor whose executor is the loop.
  case isolated(UnownedJob)
  case work(@Sendable () -> Void)
}

/// What other threads hand to a loop. Guarded by the mutex of ``LoopCore/inbox``.
struct Inbox: ~Copyable {
  enum State {
    case open
    /// Shutting down: takes what open streams and running tasks need, and nothing new.
    case draining
    case closed
  }

  /// Who is asking: something new, or something that exists and must be able to end.
  enum Kind { case new, existing }

  private(set) var state = State.open
  private var jobs: [Job] = []
  /// Whether the loop will look in here before it sleeps.
  private var isWatched = false

  /// Takes `job` unless the state forbids it.
  ///
  /// - Returns: `nil` if refused, otherwise whether the loop must be woken.
  mutating func append(_ job: Job, _ kind: Kind) -> Bool? {
    guard accepts(kind) else { return nil }
    jobs.append(job)
    defer { isWatched = true }
    return !isWatched
  }

  func accepts(_ kind: Kind) -> Bool {
    switch state {
    case .open: true
    case .draining: kind == .existing
    case .closed: false
    }
  }

  /// Swaps what is waiting for `empty`, so that two arrays serve for ever. When nothing is, the next job has to wake the loop.
  mutating func take(_ empty: inout [Job]) {
    if jobs.isEmpty { isWatched = false }
    swap(&jobs, &empty)
  }

  mutating func beginDraining() {
    if state == .open { state = .draining }
  }

  /// Closes if nothing waits.
  mutating func closeIfEmpty() -> Bool {
    guard jobs.isEmpty else { return false }
    state = .closed
    return true
  }
}
