internal import Locking
public import UV

/// Runs a closure that blocks or computes in libuv's thread pool.
///
/// ```swift
/// let digest = WorkOperation { try hash(of: image) }
/// ```
///
/// The pool has four threads unless the environment's `UV_THREADPOOL_SIZE` says otherwise before its first use, for all loops of the
/// process ([libuv](https://docs.libuv.org/en/v1.x/threadpool.html)). Name look-ups run there too: closures that block all threads hold
/// them up.
///
/// - Threads: the closure runs on a thread of the pool and is released there.
/// - Cancelling: a closure that still waits for a thread never runs. One that runs cannot be interrupted: the operation finishes at once and
///   what the closure returns is dropped.
public final class WorkOperation<Output: Sendable>: LoopOperation<Output>, @unchecked Sendable {
  // Unchecked: as LoopOperation.
  private let request: WorkRequest
  private let returned: Returned<Output>
  private let requestLoop: EventLoop

  public init(
    on loop: EventLoop = .shared, _ body: @escaping @Sendable () throws -> Output
  ) {
    let returned = Returned<Output>()
    self.returned = returned
    request = WorkRequest(loop: loop.core) { returned.set(Result(catching: body)) }
    requestLoop = loop
  }

  public override func main() { begin(on: requestLoop) }

  package override func startRequest() {
    request.start { ended in
      self.finish(ended.flatMap { self.returned.take() })
    }
  }

  package override func stopRequest(_ error: any Error) { request.cancel(error) }

  public override func releaseResources() { request.dropWork() }
}

/// What the closure returned, on its way from the pool's thread to the loop's.
private final class Returned<Output: Sendable>: Sendable {
  private let result = Lock<Result<Output, any Error>?>(nil)

  func set(_ new: Result<Output, any Error>) { result.withLock { $0 = new } }

  /// What was set. Nothing is when the closure was dropped, because somebody had finished the operation before.
  func take() -> Result<Output, any Error> {
    result.withLock { $0.take() } ?? .failure(CancellationError())
  }
}
