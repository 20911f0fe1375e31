extension EventLoop {
  /// Returns when `duration` has passed, never earlier.
  ///
  /// Any thread; the task is resumed by a timer of this loop. Zero and less returns in the loop's next turn.
  ///
  /// - Throws: `CancellationError` as soon as the task is cancelled, ``EventLoopClosed`` if the loop shuts down first.
  public func sleep(for duration: Duration) async throws {
    try await sleep(until: Deadline(after: duration))
  }

  /// Returns at `instant` or, if that has passed, in the loop's next turn; never earlier. As ``sleep(for:)``.
  public func sleep(until instant: SuspendingClock.Instant) async throws {
    try await sleep(for: SuspendingClock.now.duration(to: instant))
  }

  func sleep(until deadline: Deadline) async throws {
    let sleeper = Sleeper(loop: core, until: deadline)
    try await core.wait(.new) {
      sleeper.begin($0)
    } cancel: {
      sleeper.end(.failure(CancellationError()))
    }
  }

  /// A clock that sleeps by timers of this loop, for code that takes a `Clock`.
  public var clock: LoopClock { LoopClock(loop: self) }
}

/// The system's monotonic clock, which stands still while the machine is suspended, with sleeps by timers of an event loop.
///
/// Its instants are those of `SuspendingClock`, which on Linux is the clock that libuv uses: `CLOCK_MONOTONIC`.
public struct LoopClock: Clock {
  public typealias Instant = SuspendingClock.Instant

  fileprivate let loop: EventLoop

  public var now: Instant { SuspendingClock.now }

  /// A millisecond, which is what libuv's timers count.
  public var minimumResolution: Duration { .milliseconds(1) }

  /// Returns at `deadline`, never earlier. A timer is not put off, so `tolerance` has no effect.
  ///
  /// - Throws: As ``EventLoop/sleep(until:)``.
  public func sleep(until deadline: Instant, tolerance: Duration? = nil) async throws {
    try await loop.sleep(until: deadline)
  }
}

/// One sleep of one task.
// Unchecked: loop thread only, but for `init`.
private final class Sleeper: @unchecked Sendable {
  private let timer: TimerCore
  private let deadline: Deadline
  private var continuation: LoopContinuation<Void>?

  init(loop: LoopCore, until deadline: Deadline) {
    timer = TimerCore(loop: loop)
    self.deadline = deadline
  }

  func begin(_ continuation: LoopContinuation<Void>) {
    self.continuation = continuation
    // The timer holds the sleeper until it is discarded.
    timer.whenClosed = { self.end(.failure(EventLoopClosed())) }
    if !timer.arm(deadline, { self.end(.success(())) }) { end(.failure(EventLoopClosed())) }
  }

  func end(_ result: Result<Void, any Error>) {
    guard let continuation else { return }
    self.continuation = nil
    timer.whenClosed = nil
    timer.discard()
    continuation.resume(with: result)
  }
}
