extension EventLoop {
  /// Ticks in a fixed rhythm, for `for await`, until the task is cancelled or the loop shuts down.
  ///
  /// Any thread. Ticks lie on a grid of whole intervals from the start of the iteration, so they do not drift and never come early. While
  /// the body of the iteration takes longer than an interval, ticks are left out, not made up: the next one is the next on
  /// the grid. Intervals below a millisecond count as one.
  public func every(_ interval: Duration) -> LoopTicks { LoopTicks(loop: self, interval: interval) }
}

/// Ticks of an event loop, made by ``EventLoop/every(_:)``. Each is the number of intervals since the start, 1 for the first; a gap shows
/// that ticks were left out.
public struct LoopTicks: AsyncSequence, Sendable {
  fileprivate let loop: EventLoop
  fileprivate let interval: Duration

  public struct AsyncIterator: AsyncIteratorProtocol {
    fileprivate let loop: EventLoop
    fileprivate let interval: Duration
    fileprivate let start = Deadline.now

    public mutating func next() async -> Int? {
      let due = start.next(every: interval)
      do { try await loop.sleep(until: due) } catch { return nil }
      return Int((due.nanoseconds - start.nanoseconds) / interval.clampedNanoseconds)
    }
  }

  public func makeAsyncIterator() -> AsyncIterator {
    AsyncIterator(loop: loop, interval: Swift.max(interval, LoopTimer.shortestInterval))
  }
}
