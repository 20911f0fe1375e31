internal import CUV

/// A call on the descriptor of a file, unless that is closed.
// Unchecked: the variables are loop thread only.
package final class FileCall<Value: Sendable>: LoopRequest, @unchecked Sendable {
  private let file: FileCore
  private let request: PoolRequest<Value>

  init(_ request: PoolRequest<Value>, on file: FileCore) {
    self.request = request
    self.file = file
  }

  package func start(_ completion: @escaping (Result<Value, any Error>) -> Void) {
    file.start(request, completion)
  }

  package func cancel(_ error: any Error) { request.cancel(error) }
}

extension FileCore {
  /// A call on the descriptor that is no read or write.
  func request<Value: Sendable>(
    _ operation: String,
    _ call:
      @escaping @Sendable (
        UnsafeMutablePointer<uv_loop_t>, UnsafeMutablePointer<uv_fs_t>, CInt
      ) -> CInt,
    _ value: @escaping @Sendable (UnsafeMutablePointer<uv_fs_t>) -> Value
  ) -> FileCall<Value> {
    let request = FileRequest(loop: loop, operation, subject) {
      call($0, $1, self.descriptor)
    } value: {
      value($0)
    }
    return FileCall(request, on: self)
  }
}

/// Closes a file. Loop thread only.
// Unchecked: the variable is loop thread only.
package final class FileClosing: LoopRequest, @unchecked Sendable {
  private let file: FileCore
  private var completion: ((Result<Void, any Error>) -> Void)?

  init(_ file: FileCore) { self.file = file }

  package func start(_ completion: @escaping (Result<Void, any Error>) -> Void) {
    self.completion = completion
    file.close { self.end($0) }
  }

  package func cancel(_ error: any Error) { end(.failure(error)) }

  private func end(_ result: Result<Void, any Error>) { completion.take()?(result) }
}

extension FileCore {
  package func closing() -> FileClosing { FileClosing(self) }
}
