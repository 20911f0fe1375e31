// To fill the pool there is only libuv: nothing in this package waits in it without end.
internal import CUV
import Dispatch

/// Runs `body` while libuv's thread pool has nothing free, so that a look-up waits behind it.
func withFullThreadPool<Value>(_ body: () async throws -> Value) async rethrows -> Value {
  let pool = FullThreadPool()
  defer { pool.empty() }
  return try await body()
}

/// Work that keeps all threads of the pool, until it may end.
///
/// The proof for `Sendable`: the pointers are constant, and what they lead to is libuv's until `empty()` has it back.
private final class FullThreadPool: @unchecked Sendable {
  // As many as the pool can have, whatever the environment says.
  private static let most = 1_024

  private let loop = UnsafeMutablePointer<uv_loop_t>.allocate(capacity: 1)
  private let work = UnsafeMutablePointer<uv_work_t>.allocate(capacity: most)
  fileprivate let mayEnd = DispatchSemaphore(value: 0)

  init() {
    precondition(uv_loop_init(loop) == 0)
    for index in 0..<FullThreadPool.most {
      // Retained by empty()'s caller until everything has ended.
      work[index].data = Unmanaged.passUnretained(self).toOpaque()
      precondition(uv_queue_work(loop, work + index, waitInPool, nil) == 0)
    }
  }

  /// Returns when all work has ended.
  func empty() {
    for _ in 0..<FullThreadPool.most { mayEnd.signal() }
    uv_run(loop, UV_RUN_DEFAULT)
    precondition(uv_loop_close(loop) == 0)
    work.deallocate()
    loop.deallocate()
  }
}

private func waitInPool(_ work: UnsafeMutablePointer<uv_work_t>?) {
  Unmanaged<FullThreadPool>.fromOpaque(work!.pointee.data).takeUnretainedValue().mayEnd.wait()
}
