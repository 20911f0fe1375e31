internal import CUV

extension TCPStream {
  /// Whether small writes are sent at once: `TCP_NODELAY`. Any thread.
  ///
  /// - Throws: ``IOError`` if the system refuses, ``StreamClosed``, ``EventLoopClosed``.
  public func setNoDelay(_ isOn: Bool) async throws {
    try await onOpenHandle { core in uv_tcp_nodelay(core.tcp, isOn ? 1 : 0) }
  }

  /// Probes a silent peer after `delay`, in whole seconds rounded up; `nil` for never: `SO_KEEPALIVE`. Any thread.
  ///
  /// - Throws: As ``setNoDelay(_:)``.
  public func setKeepAlive(_ delay: Duration?) async throws {
    try await onOpenHandle { core in
      uv_tcp_keepalive(core.tcp, delay == nil ? 0 : 1, delay.map(TCPOptions.seconds) ?? 0)
    }
  }

  /// The size in bytes of the kernel's send buffer, which Linux makes the double of what is asked for: `SO_SNDBUF`. Any thread.
  ///
  /// - Parameter size: What to ask for, `nil` to leave it.
  /// - Throws: As ``setNoDelay(_:)``.
  @discardableResult
  public func sendBufferSize(settingTo size: Int? = nil) async throws -> Int {
    try await bufferSize(settingTo: size, uv_send_buffer_size)
  }

  /// The size in bytes of the kernel's receive buffer, which Linux makes the double of what is asked for: `SO_RCVBUF`. Any thread.
  ///
  /// - Parameter size: What to ask for, `nil` to leave it.
  /// - Throws: As ``setNoDelay(_:)``.
  @discardableResult
  public func receiveBufferSize(settingTo size: Int? = nil) async throws -> Int {
    try await bufferSize(settingTo: size, uv_recv_buffer_size)
  }

  private typealias BufferSizeCall =
    @Sendable (UnsafeMutablePointer<uv_handle_t>?, UnsafeMutablePointer<CInt>?) -> CInt

  private func bufferSize(settingTo size: Int?, _ call: @escaping BufferSizeCall) async throws
    -> Int
  {
    if let size, size <= 0 { throw IOError(.invalidArgument, "set option", "buffer size \(size)") }
    return Int(
      try await onOpenHandle { core in
        if let size {
          var value = CInt(clamping: size)
          let status = call(core.handle, &value)
          if status < 0 { return status }
        }
        var value: CInt = 0  // Zero asks.
        let status = call(core.handle, &value)
        return status < 0 ? status : value
      })
  }

  /// Runs `body` on the loop thread while the stream is open.
  @discardableResult
  private func onOpenHandle(_ body: @escaping @Sendable (StreamCore) -> CInt) async throws -> CInt {
    try await core.loop.wait { [core] continuation in
      continuation.resume(
        with: Result {
          try core.withOpenHandle("set option") { () throws(IOError) in
            let status = body(core)
            guard status >= 0 else { throw IOError(status, "set option", core.subject) }
            return status
          }
        })
    } cancel: {
    }
  }
}
