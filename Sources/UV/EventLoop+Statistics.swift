internal import Synchronization

extension EventLoop {
  /// Counts of one loop, read without stopping it.
  public struct Statistics: Hashable, Sendable {
    /// Open timers, streams, listeners and signal observers.
    public let handles: Int
    /// What the thread pool does for the loop, or has waiting: files, name look-ups, closures.
    public let requests: Int
    /// Tasks and closures that were run.
    public let jobsRun: Int
    /// Turns of the loop.
    public let iterations: Int
    /// The longest time between a poll's return and the next poll, in which the loop served nobody else. Precise to a few
    /// milliseconds.
    public let longestTurn: Duration
  }

  /// The counts of this moment. Any thread; they are not of one instant.
  public var statistics: Statistics {
    let counters = core.counters
    return Statistics(
      handles: counters.handles.current,
      requests: counters.requests.current,
      jobsRun: counters.jobs.current,
      iterations: counters.iterations.current,
      longestTurn: .nanoseconds(counters.longestTurn.current)
    )
  }

  /// How long a turn of the loop may take before ``Report`` is told that something blocks the loop's thread; `nil` for any time.
  ///
  /// Any thread. It is told when the turn is over. 250 ms in debug builds, `nil` in release builds; a turn is timed in any case, for
  /// ``Statistics/longestTurn``.
  public var turnLimit: Duration? {
    get {
      let limit = core.counters.turnLimit.load(ordering: .relaxed)
      return limit == .max ? nil : .nanoseconds(limit)
    }
    set {
      let limit = newValue.map { Int(clamping: $0.clampedNanoseconds) } ?? .max
      core.counters.turnLimit.store(limit, ordering: .relaxed)
    }
  }
}
