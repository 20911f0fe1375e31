internal import CUV

/// How a TCP stream is set up, when it connects or is accepted.
public struct TCPOptions: Hashable, Sendable {
  /// Send small writes at once instead of collecting them: `TCP_NODELAY`.
  public var noDelay = true

  /// Probe a silent peer after this long, in whole seconds rounded up; `nil` for never: `SO_KEEPALIVE` and `TCP_KEEPIDLE`.
  public var keepAlive: Duration?

  /// The size in bytes asked for the kernel's send buffer, of which Linux allots the double: `SO_SNDBUF`.
  public var sendBufferSize: Int?

  /// The size in bytes asked for the kernel's receive buffer, of which Linux allots the double: `SO_RCVBUF`.
  public var receiveBufferSize: Int?

  /// How long one read may wait, `nil` for ever. It then fails with `timedOut`; no byte is lost and the stream stays open.
  public var readTimeout: Duration?

  /// How long a write may wait without the system taking a byte, because the peer does not read; `nil` for ever. It then fails with
  /// `timedOut`, a quarter of the time later at most, and the stream refuses further ones.
  public var writeTimeout: Duration?

  /// How long the connection may be silent in both directions, `nil` for ever. It is then reset: what waits fails with `timedOut`, as does
  /// what comes later.
  public var idleTimeout: Duration?

  public init() {}
}

extension TCPOptions {
  /// Applies what differs from the system's defaults. Loop thread only.
  func apply(to tcp: UnsafeMutablePointer<uv_tcp_t>) throws(IOError) {
    if noDelay { try check(uv_tcp_nodelay(tcp, 1)) }
    if let keepAlive { try check(uv_tcp_keepalive(tcp, 1, TCPOptions.seconds(keepAlive))) }
    let handle = UnsafeMutableRawPointer(tcp).assumingMemoryBound(to: uv_handle_t.self)
    if var size = sendBufferSize.map(CInt.init(clamping:)) {
      try check(size > 0 ? uv_send_buffer_size(handle, &size) : UV_EINVAL.rawValue)
    }
    if var size = receiveBufferSize.map(CInt.init(clamping:)) {
      try check(size > 0 ? uv_recv_buffer_size(handle, &size) : UV_EINVAL.rawValue)
    }
  }

  /// The kernel takes 1 to 32767 seconds.
  static func seconds(_ duration: Duration) -> CUnsignedInt {
    let (whole, rest) = duration.clampedNanoseconds.quotientAndRemainder(dividingBy: 1_000_000_000)
    return CUnsignedInt(min(max(whole + (rest > 0 ? 1 : 0), 1), 32_767))
  }

  private func check(_ status: CInt) throws(IOError) {
    if status < 0 { throw IOError(status, "set option") }
  }
}
