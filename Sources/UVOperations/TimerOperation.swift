public import UV

/// An operation that finishes when a time has passed: a pause between others, a delayed start.
///
/// The time counts from the start of the operation and is never cut short. Any thread; the loop's timer finishes it. Cancelling it
/// finishes it at once, with `CancellationError`.
public final class TimerOperation: LoopOperation<Void>, @unchecked Sendable {
  // Unchecked: as LoopOperation; `deadline` is written in `main()`.
  private let delay: Duration
  private let timerLoop: EventLoop
  private let timer: TimerCore
  private var deadline = Deadline(nanoseconds: 0)

  /// - Parameters:
  ///   - delay: The time to pass; zero and less finishes in the loop's next turn, centuries are cut to about 290 years.
  ///   - loop: The loop that keeps the time.
  public init(after delay: Duration, on loop: EventLoop = .shared) {
    self.delay = delay
    timerLoop = loop
    timer = TimerCore(loop: loop.core)
  }

  public override func main() {
    deadline = Deadline(after: delay)
    begin(on: timerLoop)
  }

  package override func startRequest() {
    timer.whenClosed = { self.finish(throwing: EventLoopClosed()) }
    let isArmed = timer.arm(deadline) { self.end(.success(())) }
    if !isArmed { end(.failure(EventLoopClosed())) }
  }

  package override func stopRequest(_ error: any Error) { end(.failure(error)) }

  private func end(_ result: Result<Void, any Error>) {
    timer.whenClosed = nil
    timer.discard()
    finish(result)
  }
}
