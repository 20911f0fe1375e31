public import UV

/// Runs a closure that blocks or computes in libuv's thread pool.
///
/// ```swift
/// let digest = WorkOperation { try hash(of: image) }
/// ```
///
/// The pool is that of all loops of the process, see ``UV/ThreadPool``. Closures and name look-ups together leave one of its threads to
/// files, so with four of them three closures run at a time and others wait.
///
/// - Threads: the closure runs on a thread of the pool and is released there.
/// - Cancelling: a closure that still waits for a thread never runs. One that runs cannot be interrupted: the operation finishes at once and
///   what the closure returns is dropped.
public final class WorkOperation<Output: Sendable>: LoopOperation<Output>, @unchecked Sendable {
  // Unchecked: as LoopOperation.
  private let request: WorkRequest<Output>
  private let requestLoop: EventLoop

  public init(
    on loop: EventLoop = .shared, _ body: @escaping @Sendable () throws -> Output
  ) {
    request = WorkRequest(loop: loop.core, body)
    requestLoop = loop
  }

  public override func main() { begin(on: requestLoop) }

  package override func startRequest() { request.start { self.requestDidEnd($0) } }

  package override func stopRequest(_ error: any Error) { request.cancel(error) }

  public override func releaseResources() { request.dropWork() }
}
