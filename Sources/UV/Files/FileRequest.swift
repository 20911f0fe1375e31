internal import CUV

/// One call of libuv's `uv_fs_` family.
// Unchecked: as PoolRequest.
package final class FileRequest<Value: Sendable>: PoolRequest<Value>, @unchecked Sendable {
  typealias Memory = UnsafeMutablePointer<uv_fs_t>

  /// Makes the call, with ``fileRequestIsDone`` as its callback.
  typealias Call = (UnsafeMutablePointer<uv_loop_t>, Memory) -> CInt

  private let memory = Memory.allocate(capacity: 1)
  private let call: Call
  private let value: (Memory) throws -> Value
  private let isCertain: Bool

  /// - Parameters:
  ///   - mustFinish: See ``AnyPoolRequest/mustFinish``.
  ///   - value: Takes what the call has brought, if it succeeded. libuv's own memory is freed after it.
  init(
    loop: LoopCore, _ operation: String, _ subject: FileSubject = FileSubject(),
    mustFinish: Bool = false, _ call: @escaping Call,
    value: @escaping (Memory) throws -> Value
  ) {
    self.call = call
    self.value = value
    isCertain = mustFinish
    super.init(loop: loop, operation, subject)
  }

  deinit { memory.deallocate() }

  override var mustFinish: Bool { isCertain }
  override var mayFinishDuringShutdown: Bool { true }

  override var request: UnsafeMutablePointer<uv_req_t>? {
    UnsafeMutableRawPointer(memory).assumingMemoryBound(to: uv_req_t.self)
  }

  override func submit(_ data: UnsafeMutableRawPointer) -> CInt {
    memory.pointee.data = data
    let status = call(loop.uv, memory)
    return status < 0 ? status : 0
  }

  override func result(_ status: Int) -> Result<Value, any Error> {
    defer { uv_fs_req_cleanup(memory) }
    guard status >= 0 else { return .failure(error(status)) }
    return Result { try value(memory) }
  }
}

/// The callback of every call of the `uv_fs_` family.
func fileRequestIsDone(_ request: UnsafeMutablePointer<uv_fs_t>?) {
  poolRequestIsDone(request!.pointee.data, request!.pointee.result)
}

extension FileRequest<Void> {
  /// A call that brings nothing.
  convenience init(
    loop: LoopCore, _ operation: String, _ subject: FileSubject, mustFinish: Bool = false,
    _ call: @escaping Call
  ) {
    self.init(loop: loop, operation, subject, mustFinish: mustFinish, call) { _ in }
  }
}
