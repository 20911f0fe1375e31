internal import Foundation
internal import Locking
public import UV

/// An operation that finishes when a time has passed, or when it has ticked often enough.
///
/// ```swift
/// let pause = TimerOperation(after: .seconds(2))
/// let ticks = TimerOperation(every: .seconds(1), count: 5) { print("tick \($0)") }
/// ticks.addDependency(pause)
/// ```
///
/// Never early; a time counts from the start of the operation. Any thread; the loop's timer finishes it. Cancelling it, also between
/// ticks, ends the waiting: the loop then finishes it with `CancellationError`.
public final class TimerOperation: LoopOperation<Void>, @unchecked Sendable {
  // Unchecked: as LoopOperation. `deadline` is written in `main()`, and then loop thread only like `ticks` and `isTicking`.
  private enum Schedule: Sendable {
    case after(Duration)
    case until(ContinuousClock.Instant)
    case every(Duration, count: Int?)
  }

  /// Called with the number of the tick.
  public typealias TickHandler = @Sendable (_ number: Int) throws -> Void

  private let schedule: Schedule
  private let timerLoop: EventLoop
  private let timer: TimerCore
  private let tick: Lock<TickHandler?>
  private var deadline = Deadline(nanoseconds: 0)
  private var ticks = 0
  private var isTicking = false

  private init(_ schedule: Schedule, on loop: EventLoop, tick: TickHandler? = nil) {
    self.schedule = schedule
    timerLoop = loop
    timer = TimerCore(loop: loop.core)
    self.tick = Lock(tick)
  }

  /// Finishes when `delay` has passed.
  ///
  /// - Parameters:
  ///   - delay: The time to pass; zero and less finishes in the loop's next turn, centuries are cut to about 290 years.
  ///   - loop: The loop that keeps the time.
  public convenience init(after delay: Duration, on loop: EventLoop = .shared) {
    self.init(.after(delay), on: loop)
  }

  /// Finishes at `instant`, or in the loop's next turn if that has passed when the operation starts.
  ///
  /// The loop's clock stands still while the system is suspended: the operation then finishes that much later.
  public convenience init(until instant: ContinuousClock.Instant, on loop: EventLoop = .shared) {
    self.init(.until(instant), on: loop)
  }

  /// Calls `tick` again and again, and finishes after the last call has returned.
  ///
  /// Ticks lie on a fixed grid, whole intervals from the start, so they do not drift. One that comes while the call before is still
  /// running, or that the loop was too busy for, is left out and not made up. Intervals below a millisecond count as one.
  ///
  /// - Parameters:
  ///   - interval: The time to the first tick and between ticks.
  ///   - count: How many calls there are; `nil` is until the operation is cancelled.
  ///   - loop: The loop that keeps the time.
  ///   - tick: Gets the number of the call, from 1. Called on the loop thread if the operation was started there, otherwise on a global
  ///     queue; one call at a time. What it throws fails the operation. A call that is under way when the operation is cancelled goes on.
  public convenience init(
    every interval: Duration, count: Int? = nil, on loop: EventLoop = .shared,
    _ tick: @escaping TickHandler
  ) {
    trapUnless(count ?? 0 >= 0, "A TimerOperation cannot tick \(count ?? 0) times.")
    self.init(
      .every(max(interval, LoopTimer.shortestInterval), count: count), on: loop, tick: tick)
  }

  /// The same, for a `tick` that does not ask which it is.
  public convenience init(
    every interval: Duration, count: Int? = nil, on loop: EventLoop = .shared,
    _ tick: @escaping @Sendable () throws -> Void
  ) {
    self.init(every: interval, count: count, on: loop) { _ in try tick() }
  }

  public override func main() {
    deadline =
      switch schedule {
      case .after(let delay): Deadline(after: delay)
      case .until(let instant): Deadline(after: ContinuousClock.now.duration(to: instant))
      case .every(_, count: 0): Deadline(after: .zero)
      case .every(let interval, _): Deadline(after: interval)
      }
    begin(on: timerLoop)
  }

  package override func startRequest() {
    if isFinishClaimed { return }
    timer.whenClosed = { self.requestDidEnd(.failure(EventLoopClosed())) }
    if !arm() { end(.failure(EventLoopClosed())) }
  }

  package override func stopRequest(_ error: any Error) { end(.failure(error)) }

  public override func releaseResources() {
    let unused = tick.withLock { $0.take() }
    // It goes when the lock is free: with it may go anything of the user's.
    withExtendedLifetime(unused) {}
  }

  private func arm() -> Bool { timer.arm(deadline) { self.isDue() } }

  private func isDue() {
    guard case .every(let interval, let count) = schedule, count != 0 else {
      return end(.success(()))
    }
    // Armed before the call, which may end the timer.
    deadline = deadline.next(every: interval)
    _ = arm()
    if !isTicking { callTick() }
  }

  private func callTick() {
    // There is none when the operation is finishing.
    guard let tick = tick.withLock({ $0 }) else { return endTimer() }
    ticks += 1
    isTicking = true
    let number = ticks
    if runsHandlersInline { return tickReturned(Result { try tick(number) }) }
    DispatchQueue.global().async {
      let result = Result { if !self.isFinishClaimed { try tick(number) } }
      // When the loop has closed, the operation has ended with it.
      self.timerLoop.core.perform { self.tickReturned(result) }
    }
  }

  private func tickReturned(_ result: Result<Void, any Error>) {
    isTicking = false
    guard case .every(_, let count) = schedule else { return }
    if case .failure = result { return end(result) }
    if ticks == count { end(.success(())) }
  }

  private func end(_ result: Result<Void, any Error>) {
    endTimer()
    requestDidEnd(result)
  }

  private func endTimer() {
    timer.whenClosed = nil
    timer.discard()
  }
}
