internal import CUV
internal import Locking
internal import Synchronization

/// One closure in libuv's thread pool, which ends with what it returns.
// Unchecked: as PoolRequest; `work` and `returned` are guarded.
package final class WorkRequest<Value: Sendable>: PoolRequest<Value>, @unchecked Sendable {
  /// What runs in the pool. It may ask now and then whether somebody still waits for it.
  typealias Work = @Sendable (_ isStopped: borrowing Atomic<Bool>) -> Result<Value, any Error>

  private let work: Lock<Work?>
  private let isStopped = Atomic<Bool>(false)
  private let returned = Lock<Result<Value, any Error>?>(nil)
  private let workMemory = UnsafeMutablePointer<uv_work_t>.allocate(capacity: 1)
  private let blocks: Bool

  /// A closure of the user, which may block.
  package convenience init(
    loop: LoopCore, _ work: @escaping @Sendable () throws -> Value
  ) {
    self.init(loop: loop, "work", FileSubject(), blocks: true) { _ in Result(catching: work) }
  }

  /// - Parameters:
  ///   - blocks: See ``PoolRequest/mayBlock``.
  init(
    loop: LoopCore, _ operation: String, _ subject: FileSubject, blocks: Bool = false,
    _ work: @escaping Work
  ) {
    self.work = Lock(work)
    self.blocks = blocks
    super.init(loop: loop, operation, subject)
  }

  deinit { workMemory.deallocate() }

  override var mayBlock: Bool { blocks }

  override var mayFinishDuringShutdown: Bool { !blocks }

  override var request: UnsafeMutablePointer<uv_req_t>? {
    UnsafeMutableRawPointer(workMemory).assumingMemoryBound(to: uv_req_t.self)
  }

  override func submit(_ data: UnsafeMutableRawPointer) -> CInt {
    workMemory.pointee.data = data
    return uv_queue_work(loop.uv, workMemory, doWork, workDidFinish)
  }

  override func result(_ status: Int) -> Result<Value, any Error> {
    guard status == 0 else { return .failure(error(status)) }
    // Nothing was returned when the closure was dropped: somebody had ended the waiting before.
    return returned.withLock { $0.take() } ?? .failure(CancellationError())
  }

  override func release() { dropWork() }

  package override func cancel(_ error: any Error) {
    isStopped.store(true, ordering: .relaxed)
    super.cancel(error)
  }

  /// Releases the closure if it has not begun; it will not run any more. Any thread.
  package func dropWork() {
    let unused = work.withLock { $0.take() }
    // It goes when the lock is free: with it may go anything of the user's.
    withExtendedLifetime(unused) {}
  }

  /// On a thread of the pool. The closure is released there when it has run.
  override func run() {
    guard let result = work.withLock({ $0.take() })?(isStopped) else { return }
    returned.withLock { $0 = result }
  }
}

private func doWork(_ request: UnsafeMutablePointer<uv_work_t>?) {
  Unmanaged<AnyPoolRequest>.fromOpaque(request!.pointee.data).takeUnretainedValue().run()
}

private func workDidFinish(_ request: UnsafeMutablePointer<uv_work_t>?, _ status: CInt) {
  poolRequestIsDone(request!.pointee.data, Int(status))
}
