internal import Locking
internal import UV

/// Tries again while an operation fails: makes a fresh one for each attempt, and ends as the last one did.
///
/// ```swift
/// let connect = RetryOperation(attempts: 5) { ConnectOperation(to: "localhost", port: 5432) }
/// ```
///
/// - Threads: the first attempt is made and started on the thread that starts this operation, later ones on a global queue.
/// - Cancelling cancels the attempt that runs and finishes at once, also between attempts.
/// - ``ResultOperation/timeout`` is for all attempts and waits together. One for a single attempt is set where that is made.
public final class RetryOperation<Output: Sendable>: ResultOperation<Output>, @unchecked Sendable {
  // Unchecked: as ResultOperation; `phase` and `makeAttempt` are guarded.
  private enum Phase {
    case idle
    case attempting(ResultOperation<Output>)
    case waiting(cancelTimer: @Sendable () -> Void)
    case ended
  }

  private let attempts: Int
  private let backoff: Backoff
  private let isWorthRetrying: @Sendable (any Error) -> Bool
  private let makeAttempt: Lock<(@Sendable (Int) throws -> ResultOperation<Output>)?>
  private let phase = Lock(Phase.idle)

  /// - Parameters:
  ///   - attempts: How many at most; at least one.
  ///   - backoff: How long to wait after one that failed.
  ///   - isWorthRetrying: Whether to try again after that error, asked on the thread that the attempt finished on. Not asked after the last
  ///     attempt. The default tries again after every error but `CancellationError`.
  ///   - makeAttempt: Gets the number of the attempt, from 1, and makes a new operation, in no queue and not started: that is done here.
  ///     What it throws fails that attempt.
  public init(
    attempts: Int, backoff: Backoff = Backoff(),
    retryIf isWorthRetrying: @escaping @Sendable (any Error) -> Bool = {
      !($0 is CancellationError)
    },
    _ makeAttempt: @escaping @Sendable (_ number: Int) throws -> ResultOperation<Output>
  ) {
    trapUnless(
      attempts > 0, "A RetryOperation needs at least one attempt: `attempts` is \(attempts).")
    self.attempts = attempts
    self.backoff = backoff
    self.isWorthRetrying = isWorthRetrying
    self.makeAttempt = Lock(makeAttempt)
  }

  /// The same for those who need no number.
  public convenience init(
    attempts: Int, backoff: Backoff = Backoff(),
    retryIf isWorthRetrying: @escaping @Sendable (any Error) -> Bool = {
      !($0 is CancellationError)
    },
    _ makeAttempt: @escaping @Sendable () throws -> ResultOperation<Output>
  ) {
    self.init(attempts: attempts, backoff: backoff, retryIf: isWorthRetrying) { _ in
      try makeAttempt()
    }
  }

  public override func main() { attempt(1) }

  private func attempt(_ number: Int) {
    guard let makeAttempt = makeAttempt.withLock({ $0 }) else { return }  // It has ended.
    let operation: ResultOperation<Output>
    do {
      operation = try makeAttempt(number)
    } catch {
      return attempt(number, didFinish: .failure(error))
    }
    trapUnless(
      !operation.isExecuting && !operation.isFinished,
      "\(displayName) needs a new operation for each attempt, but got \(operation.displayName), which has been started already."
    )
    guard enter(.attempting(operation)) else { return }
    operation.whenFinished { self.attempt(number, didFinish: $0) }
    operation.start()
  }

  private func attempt(_ number: Int, didFinish result: Result<Output, any Error>) {
    guard case .failure(let error) = result, number < attempts, isWorthRetrying(error) else {
      return finish(result)
    }
    let delay = backoff.delay(afterAttempt: number)
    phase.withLock { phase in
      if case .ended = phase { return }
      // Under the lock, so that the next attempt, which takes it too, comes after this.
      phase = .waiting(cancelTimer: callLater(after: delay) { self.attempt(number + 1) })
    }
  }

  /// Returns false when the operation was stopped meanwhile.
  private func enter(_ next: Phase) -> Bool {
    phase.withLock { phase in
      if case .ended = phase { return false }
      phase = next
      return true
    }
  }

  private func end() -> Phase {
    phase.withLock { phase in
      defer { phase = .ended }
      return phase
    }
  }

  /// Also when somebody else finishes the operation. An attempt that has finished it does not mind.
  public override func releaseResources() {
    switch end() {
    case .attempting(let operation): operation.cancel()
    case .waiting(let cancelTimer): cancelTimer()
    case .idle, .ended: break
    }
    _ = makeAttempt.withLock { $0.take() }
  }
}
