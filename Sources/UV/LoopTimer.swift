internal import Synchronization

/// A timer on an event loop, made by ``EventLoop/schedule(after:_:)`` or ``EventLoop/schedule(every:after:_:)``.
///
/// Any thread may cancel or reschedule it. The loop keeps a timer that is waiting, so it need not be held; once it has fired
/// for the last time or was cancelled, it is gone with its last holder, and may be rescheduled until then.
///
/// Never early: a timer fires when at least its delay has passed since the call, measured on the monotonic clock, rounded up to
/// [libuv's milliseconds](https://docs.libuv.org/en/v1.x/timer.html). Zero and less is the loop's next turn; delays of
/// centuries are cut to about 290 years.
public final class LoopTimer: Sendable {
  package static let shortestInterval = Duration.milliseconds(1)  // libuv counts milliseconds.

  private let core: TimerCore
  private let interval: Duration?
  private let body: @Sendable (LoopTimer) -> Void
  private let calls = Atomic<UInt64>(0)

  init(loop: LoopCore, interval: Duration?, _ body: @escaping @Sendable (LoopTimer) -> Void) {
    core = TimerCore(loop: loop)
    self.interval = interval.map { max($0, Self.shortestInterval) }
    self.body = body
  }

  deinit {
    core.loop.perform { [core] in core.discard() }
  }

  /// Stops the timer. Harmless when it is not waiting.
  ///
  /// Any thread. After a call on the loop thread it does not fire any more. A call from elsewhere races with a tick that is
  /// under way, and returns at once.
  public func cancel() {
    let call = nextCall()
    core.loop.perform { [core] in
      if core.isLatest(call) { core.disarm() }
    }
  }

  /// Makes the timer fire `delay` from now instead of when it would have; a repeating one goes on from there.
  ///
  /// Any thread; also after it fired or was cancelled. Has no effect once the loop is shutting down.
  public func reschedule(after delay: Duration) {
    let deadline = Deadline(after: delay)
    let call = nextCall()
    core.loop.perform { self.start(deadline, call) }
  }

  fileprivate func nextCall() -> UInt64 { calls.add(1, ordering: .relaxed).newValue }

  /// Loop thread only.
  fileprivate func start(_ deadline: Deadline, _ call: UInt64) {
    if core.isLatest(call) { arm(deadline) }
  }

  /// Its closure holds `self`, which is what keeps a waiting timer alive. Loop thread only.
  private func arm(_ deadline: Deadline) {
    core.arm(deadline) { self.tick(deadline) }
  }

  private func tick(_ deadline: Deadline) {
    // Armed before the body runs, so that the body can cancel or reschedule.
    if let interval { arm(deadline.next(every: interval)) }
    body(self)
  }
}

extension EventLoop {
  /// Runs `body` on the loop thread once `delay` has passed.
  ///
  /// Any thread. The timer need not be held. Timers with the same due millisecond fire in the order of the calls.
  ///
  /// - Throws: ``EventLoopClosed`` once the loop is shutting down. A timer that is waiting when the loop shuts down never
  ///   fires.
  @discardableResult
  public func schedule(
    after delay: Duration, _ body: @escaping @Sendable () -> Void
  ) throws(EventLoopClosed) -> LoopTimer {
    try start(LoopTimer(loop: core, interval: nil) { _ in body() }, after: delay)
  }

  /// Runs `body` on the loop thread again and again, until the timer is cancelled or the loop shuts down.
  ///
  /// Any thread. The timer need not be held; `body` gets it. Ticks lie on a fixed grid, whole intervals from the first one,
  /// so they do not drift. Ticks that the loop was too busy for are left out, not made up: after a long callback one tick
  /// comes late and the next one on the grid. Intervals below a millisecond count as one.
  ///
  /// - Parameter delay: When the first tick is due; one interval from now if not given.
  /// - Throws: ``EventLoopClosed`` once the loop is shutting down.
  @discardableResult
  public func schedule(
    every interval: Duration, after delay: Duration? = nil,
    _ body: @escaping @Sendable (LoopTimer) -> Void
  ) throws(EventLoopClosed) -> LoopTimer {
    let timer = LoopTimer(loop: core, interval: interval, body)
    return try start(timer, after: delay ?? max(interval, LoopTimer.shortestInterval))
  }

  /// The same, for a `body` that does not need the timer.
  @discardableResult
  public func schedule(
    every interval: Duration, after delay: Duration? = nil, _ body: @escaping @Sendable () -> Void
  ) throws(EventLoopClosed) -> LoopTimer {
    try schedule(every: interval, after: delay) { _ in body() }
  }

  private func start(
    _ timer: LoopTimer, after delay: Duration
  ) throws(EventLoopClosed) -> LoopTimer {
    let deadline = Deadline(after: delay)
    let call = timer.nextCall()
    guard core.performNew({ timer.start(deadline, call) }) else { throw EventLoopClosed() }
    return timer
  }
}
