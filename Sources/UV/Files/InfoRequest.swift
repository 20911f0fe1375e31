internal import CUV

/// A call for what the system knows of a file. Not a ``FileRequest``, which is generic: many programs make it by the thousand.
///
/// Loop thread only, but for `init`.
// Unchecked: as AnyPoolRequest.
package final class InfoRequest: AnyPoolRequest, LoopRequest, @unchecked Sendable {
  private let path: FilePath
  private let followingLinks: Bool
  private let memory = UnsafeMutablePointer<uv_fs_t>.allocate(capacity: 1)
  @exclusivity(unchecked) private var completion: ((Result<FileInfo, any Error>) -> Void)?

  init(loop: LoopCore, _ path: FilePath, _ followingLinks: Bool) {
    self.path = path
    self.followingLinks = followingLinks
    super.init(loop: loop, "stat")
  }

  deinit { memory.deallocate() }

  package func start(_ completion: @escaping (Result<FileInfo, any Error>) -> Void) {
    self.completion = completion
    begin()
  }

  override var about: String? { path.description }

  override var mayFinishDuringShutdown: Bool { true }

  override var request: UnsafeMutablePointer<uv_req_t>? {
    UnsafeMutableRawPointer(memory).assumingMemoryBound(to: uv_req_t.self)
  }

  override func submit(_ data: UnsafeMutableRawPointer) -> CInt {
    memory.pointee.data = data
    return path.withCString {
      followingLinks
        ? uv_fs_stat(loop.uv, memory, $0, fileRequestIsDone)
        : uv_fs_lstat(loop.uv, memory, $0, fileRequestIsDone)
    }
  }

  override func didEnd(_ status: Int?, _ error: (any Error)?) {
    defer { if status != nil { uv_fs_req_cleanup(memory) } }
    guard let completion = completion.take() else { return }
    if let error { return completion(.failure(error)) }
    let status = status ?? 0
    completion(
      status < 0 ? .failure(self.error(status)) : .success(FileInfo(memory.pointee.statbuf)))
  }

  override func stopWaiting(_ error: any Error) { completion.take()?(.failure(error)) }
}
