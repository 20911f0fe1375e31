internal import CUV
internal import Locking

/// One closure in libuv's thread pool.
///
/// libuv holds a reference from a successful `start` until `workDidFinish`, also after a cancellation: work that runs cannot be interrupted.
///
/// Loop thread only, but for `init`.
// Unchecked: the variables are loop thread only, `work` is guarded.
package final class WorkRequest: LoopRequest, @unchecked Sendable {
  package typealias Completion = (Result<Void, any Error>) -> Void

  private let loop: LoopCore
  private let work: Lock<(@Sendable () -> Void)?>
  private let request = UnsafeMutablePointer<uv_work_t>.allocate(capacity: 1)
  private var completion: Completion?
  private var isRunning = false

  package init(loop: LoopCore, _ work: @escaping @Sendable () -> Void) {
    self.loop = loop
    self.work = Lock(work)
  }

  deinit { request.deallocate() }

  /// Calls `completion` exactly once: when the closure has run, or with the reason why nobody waits for it any more.
  package func start(_ completion: @escaping Completion) {
    loop.preconditionIsCurrent()
    guard loop.acceptsNew else { return completion(.failure(EventLoopClosed())) }
    self.completion = completion
    request.pointee.data = Unmanaged.passRetained(self).toOpaque()  // Released in workDidFinish.
    let status = uv_queue_work(loop.uv, request, doWork, workDidFinish)
    guard status == 0 else {
      Unmanaged.passUnretained(self).release()  // Refused: the callback will never run.
      return finish(.failure(IOError(status, "work")))
    }
    isRunning = true
    loop.requestStarted(self)
  }

  /// Ends the waiting with `error`, at once. Work that is still queued does not run; what runs ends unseen.
  package func cancel(_ error: any Error) {
    if isRunning {
      // Fails when the work is past the pool's queue; its callback comes all the same.
      uv_cancel(UnsafeMutableRawPointer(request).assumingMemoryBound(to: uv_req_t.self))
    }
    finish(.failure(error))
  }

  func loopIsClosing() { cancel(EventLoopClosed()) }

  private func finish(_ result: Result<Void, any Error>) {
    let completion = completion
    self.completion = nil
    completion?(result)
  }

  /// Releases the closure if it has not begun; it will not run any more. Any thread.
  package func dropWork() {
    let unused = work.withLock { $0.take() }
    // It goes when the lock is free: with it may go anything of the user's.
    withExtendedLifetime(unused) {}
  }

  /// On a thread of the pool. The closure is released there when it has run.
  fileprivate func run() { work.withLock { $0.take() }?() }

  fileprivate func workEnded(_ status: CInt) {
    isRunning = false
    loop.requestEnded(self)
    dropWork()
    finish(status == 0 ? .success(()) : .failure(IOError(status, "work")))
  }
}

private func doWork(_ request: UnsafeMutablePointer<uv_work_t>?) {
  Unmanaged<WorkRequest>.fromOpaque(request!.pointee.data).takeUnretainedValue().run()
}

private func workDidFinish(_ request: UnsafeMutablePointer<uv_work_t>?, _ status: CInt) {
  let work = Unmanaged<WorkRequest>.fromOpaque(request!.pointee.data).takeRetainedValue()
  work.workEnded(status)
}
