extension EventLoop {
  /// Returns when `duration` has passed, never earlier.
  ///
  /// Any thread; the task is resumed by a timer of this loop. Zero and less returns in the loop's next turn.
  ///
  /// - Throws: `CancellationError` as soon as the task is cancelled, ``EventLoopClosed`` if the loop shuts down first.
  public func sleep(for duration: Duration) async throws {
    let sleeper = Sleeper(loop: core, until: Deadline(after: duration))
    try await core.wait(.new) {
      sleeper.begin($0)
    } cancel: {
      sleeper.end(.failure(CancellationError()))
    }
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
