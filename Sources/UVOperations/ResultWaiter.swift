internal import Locking

/// Resumes one waiting task once, with the result or because the task was cancelled, whichever comes first.
///
/// Any thread.
final class ResultWaiter<Output: Sendable>: Sendable {
  private enum State {
    case idle
    case waiting(UnsafeContinuation<Output, any Error>)
    case resumed(Result<Output, any Error>)
  }

  // A continuation is resumed by whoever puts `resumed` in its place, so exactly once.
  private let state = Lock(State.idle)

  /// Takes the continuation, and resumes it at once if the task was cancelled before it waited.
  func wait(_ continuation: UnsafeContinuation<Output, any Error>) {
    let result: Result<Output, any Error>? = state.withLock { state in
      if case .resumed(let result) = state { return result }
      state = .waiting(continuation)
      return nil
    }
    if let result { continuation.resume(with: result) }
  }

  func resume(with result: Result<Output, any Error>) {
    let continuation: UnsafeContinuation<Output, any Error>? = state.withLock { state in
      switch state {
      case .resumed: return nil
      case .idle:
        state = .resumed(result)
        return nil
      case .waiting(let continuation):
        state = .resumed(result)
        return continuation
      }
    }
    continuation?.resume(with: result)
  }

  /// To be called by the task when it goes on: the thread sanitizer then sees that it does so after ``resume(with:)``, which the
  /// runtime does not show it when the task had not begun to wait.
  func synchronize() { state.withLock { _ in } }
}
