internal import Synchronization

extension LoopCore {
  /// Suspends the task until `start` has resumed the continuation that it gets; `cancel` follows when the task is cancelled
  /// meanwhile, and must make sure that the continuation is resumed soon.
  ///
  /// Any thread; both are called on the loop thread, in this order, `cancel` perhaps twice or after the end. What can be done without
  /// waiting is done for a cancelled task too.
  ///
  /// - Parameter kind: Whether this is refused, with ``EventLoopClosed``, as soon as a shutdown begins.
  func wait<Value>(
    _ kind: Inbox.Kind = .existing,
    start: @escaping @Sendable (UnsafeContinuation<Value, any Error>) -> Void,
    cancel: @escaping @Sendable () -> Void
  ) async throws -> Value {
    // A cancellation can reach the loop before the start does, when there is nothing to cancel yet.
    let isCancelled = CancellationFlag()
    return try await withTaskCancellationHandler {
      try await withUnsafeThrowingContinuation { continuation in
        let begin = { @Sendable in
          start(continuation)
          if isCancelled.isSet { cancel() }
        }
        let accepted = kind == .new ? performNew(begin) : perform(begin)
        if !accepted { continuation.resume(throwing: EventLoopClosed()) }
      }
    } onCancel: {
      isCancelled.set()
      perform(cancel)
    }
  }
}

private final class CancellationFlag: Sendable {
  private let flag = Atomic<Bool>(false)

  var isSet: Bool { flag.load(ordering: .acquiring) }

  func set() { flag.store(true, ordering: .releasing) }
}
