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
}
