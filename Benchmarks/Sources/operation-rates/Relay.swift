import Synchronization

/// Operations of which each begins another when it has finished, until there were enough.
final class Relay: Sendable {
  private let total: Int
  private let begun = Atomic<Int>(0)
  private let finished = Atomic<Int>(0)
  private let begin: @Sendable (Relay) -> Void
  private let end: @Sendable () -> Void

  /// - Parameters:
  ///   - begin: Begins one operation, and sees to it that ``operationDidFinish()`` is called when it has finished.
  ///   - end: Called once, when the last has finished.
  init(
    of total: Int, begin: @escaping @Sendable (Relay) -> Void, end: @escaping @Sendable () -> Void
  ) {
    self.total = total
    self.begin = begin
    self.end = end
  }

  /// Any thread.
  func beginNext() {
    if begun.add(1, ordering: .relaxed).oldValue < total { begin(self) }
  }

  /// Any thread.
  func operationDidFinish() {
    beginNext()
    if finished.add(1, ordering: .acquiringAndReleasing).newValue == total { end() }
  }

  /// Runs it with `width` operations in flight, and returns how long that took. `wait` returns after `end` was called.
  func time(inFlight width: Int, wait: () -> Void) -> Duration {
    let time = ContinuousClock().measure {
      for _ in 0..<width { beginNext() }
      wait()
    }
    let count = finished.load(ordering: .acquiring)
    check(count == total, "\(count) operations of \(total) have finished")
    return time
  }
}
