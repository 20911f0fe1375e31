internal import Synchronization

extension LoopCore {
  /// Suspends the task until `start` has resumed the continuation that it gets; `cancel` follows when the task is cancelled
  /// meanwhile, and must make sure that the continuation is resumed soon.
  ///
  /// Any thread; both are called on the loop thread, in this order, `cancel` perhaps twice or after the end. What can be done without
  /// waiting is done for a cancelled task too.
  ///
  /// - Parameter kind: Whether this is refused, with ``EventLoopClosed``, as soon as a shutdown begins.
  func wait<Value: Sendable>(
    _ kind: Inbox.Kind = .existing,
    start: @escaping @Sendable (LoopContinuation<Value>) -> Void,
    cancel: @escaping @Sendable () -> Void
  ) async throws -> Value {
    // A cancellation can reach the loop before the start does, when there is nothing to cancel yet.
    let isCancelled = CancellationFlag()
    defer { _ = resumptions.load(ordering: .acquiring) }
    return try await withTaskCancellationHandler {
      try await withUnsafeThrowingContinuation { continuation in
        let begin = { @Sendable in
          start(LoopContinuation(continuation: continuation, loop: self))
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

extension LoopCore {
  /// Starts `request` and waits for its value.
  ///
  /// Any thread. As ``wait(_:start:cancel:)``, with less to allocate: a request may be cancelled before it starts, and on the loop's thread
  /// it starts here.
  func value<Value: Sendable>(
    of request: some LoopRequest<Value>, _ kind: Inbox.Kind = .new
  ) async throws -> Value {
    defer { _ = resumptions.load(ordering: .acquiring) }
    return try await withTaskCancellationHandler {
      try await withUnsafeThrowingContinuation { continuation in
        let continuation = LoopContinuation(continuation: continuation, loop: self)
        let isAccepted: Bool
        if isCurrent {
          isAccepted = kind == .existing || acceptsNew
          if isAccepted { request.start { continuation.resume(with: $0) } }
        } else {
          isAccepted = submit(
            .work { request.start { continuation.resume(with: $0) } }, kind)
        }
        if !isAccepted { continuation.resume(throwing: EventLoopClosed()) }
      }
    } onCancel: {
      perform { request.cancel(CancellationError()) }
    }
  }
}

/// Resumes a task that waits for its loop, once, on the loop thread.
struct LoopContinuation<Value: Sendable>: Sendable {
  let continuation: UnsafeContinuation<Value, any Error>
  // The task that waits holds it.
  unowned(unsafe) let loop: LoopCore

  func resume(with result: Result<Value, any Error>) {
    // The runtime orders this with a task that has not begun to wait by an atomic that the thread sanitizer does not see. It
    // sees this one, which the task reads; that costs two plain moves.
    loop.resumptions.store(0, ordering: .releasing)
    continuation.resume(with: result)
  }

  func resume(returning value: Value) { resume(with: .success(value)) }
  func resume(throwing error: any Error) { resume(with: .failure(error)) }
}

extension LoopContinuation<Void> {
  func resume() { resume(returning: ()) }
}

private final class CancellationFlag: Sendable {
  private let flag = Atomic<Bool>(false)

  var isSet: Bool { flag.load(ordering: .acquiring) }

  func set() { flag.store(true, ordering: .releasing) }
}
