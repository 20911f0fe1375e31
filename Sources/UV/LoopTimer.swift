internal import Synchronization

/// A timer on an event loop, made by ``EventLoop/schedule(after:_:)`` or `schedule(every:)`.
///
/// Any thread may cancel or reschedule it. The loop keeps a timer that is waiting, so it need not be held; once it has fired
/// for the last time or was cancelled, it is gone with its last holder, and may be rescheduled until then.
///
/// Never early: a timer fires when at least its delay has passed since the call, measured on the monotonic clock, rounded up to
/// [libuv's milliseconds](https://docs.libuv.org/en/v1.x/timer.html). Zero and less is the loop's next turn; delays of
/// centuries are cut to about 290 years.
public final class LoopTimer: Sendable, TimerOwner {
  package static let shortestInterval = Duration.milliseconds(1)  // libuv counts milliseconds.

  enum Action: Sendable {
    case once(@Sendable () -> Void)
    case every(Duration, @Sendable (LoopTimer) -> Void)
  }

  private let core: TimerCore
  private let action: Action
  private let calls = Atomic<UInt64>(0)

  init(loop: LoopCore, _ action: Action) {
    core = TimerCore(loop: loop)
    self.action = action
  }

  deinit {
    // Without a closure on the loop thread, here and below: programs have many timers.
    if core.loop.isCurrent { return core.discard() }
    core.loop.perform { [core] in core.discard() }
  }

  /// Stops the timer. Harmless when it is not waiting.
  ///
  /// Any thread. After a call on the loop thread it does not fire any more. A call from elsewhere races with a tick that is
  /// under way, and returns at once.
  public func cancel() {
    let call = nextCall()
    if core.loop.isCurrent { return stop(call) }
    core.loop.perform { self.stop(call) }
  }

  private func stop(_ call: UInt64) {
    if core.isLatest(call) { core.disarm() }
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
    if core.isLatest(call) { core.arm(deadline, for: self) }
  }

  func timerIsDue(_ deadline: Deadline) {
    switch action {
    case .once(let body): body()
    case .every(let interval, let body):
      // Armed before the body runs, so that the body can cancel or reschedule.
      core.arm(deadline.next(every: interval), for: self)
      body(self)
    }
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
    try start(LoopTimer(loop: core, .once(body)), after: delay)
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
    let interval = max(interval, LoopTimer.shortestInterval)
    return try start(LoopTimer(loop: core, .every(interval, body)), after: delay ?? interval)
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
    if core.isCurrent {
      guard core.acceptsNew else { throw EventLoopClosed() }
      timer.start(deadline, call)
    } else {
      guard core.performNew({ timer.start(deadline, call) }) else { throw EventLoopClosed() }
    }
    return timer
  }
}
