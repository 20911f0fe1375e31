import Dispatch

/// Calls `body` once on a global queue when `duration` has passed, and returns what takes that back. Any thread.
///
/// Taking it back releases `body`.
func callLater(after duration: Duration, _ body: @escaping @Sendable () -> Void)
  -> @Sendable () -> Void
{
  // Dispatch lets every thread use its sources, but does not say so to the compiler.
  nonisolated(unsafe) let timer = DispatchSource.makeTimerSource(queue: .global())
  timer.schedule(deadline: .now() + .nanoseconds(duration.clampedNanoseconds))
  timer.setEventHandler {
    body()
    timer.cancel()  // Ends the cycle of the timer and this handler.
  }
  timer.resume()
  return { timer.cancel() }
}

extension Duration {
  /// Whole nanoseconds, rounded up so that nothing is early, between zero and a century, which is the end of time to
  /// a deadline that would otherwise overflow.
  fileprivate var clampedNanoseconds: Int {
    let century: Duration = .seconds(3_155_760_000)
    if self >= century { return 3_155_760_000_000_000_000 }
    let (seconds, attoseconds) = max(self, .zero).components
    return Int(seconds) * 1_000_000_000 + Int((attoseconds + 999_999_999) / 1_000_000_000)
  }
}
