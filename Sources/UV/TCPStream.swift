internal import Synchronization

/// A TCP connection.
///
/// Any thread may call anything, and one may read while others write. The connection lives on a loop; a task that runs on that
/// loop's thread reads and writes without a hop to another thread. Whoever has the stream closes it: ``close(timeout:)`` sends
/// what was written, ``abort()`` throws it away. A stream that is dropped while open is closed without a wait, and debug builds say
/// so through ``Report``.
public final class TCPStream: Sendable {
  /// The loop that the connection lives on.
  public let loop: EventLoop

  /// This side's address.
  public let localAddress: SocketAddress?

  /// The other side's address.
  public let peerAddress: SocketAddress?

  package let core: StreamCore

  /// Loop thread only.
  package init(_ core: StreamCore, on loop: EventLoop) {
    self.core = core
    self.loop = loop
    localAddress = core.localAddress
    peerAddress = core.peerAddress
  }

  deinit {
    core.loop.perform { [core] in core.wasDropped() }
  }

  /// Connects to `host`, a name or a numeric address, trying all of its addresses, IPv6 and IPv4, each with a short head start over
  /// the next one ([RFC 8305](https://www.rfc-editor.org/rfc/rfc8305)).
  ///
  /// Any thread. The stream is the caller's to close.
  ///
  /// - Parameter timeout: For all of it, the look-up included; `nil` leaves it to the system, which gives up after minutes.
  /// - Throws: ``IOError`` such as `connectionRefused`, `timedOut` or `nameNotKnown`; ``AddressError`` for what cannot be a host or port;
  ///   `CancellationError` at once when the task is cancelled; ``EventLoopClosed``.
  public static func connect(
    to host: String, port: Int, timeout: Duration? = .seconds(10),
    options: TCPOptions = TCPOptions(),
    loop: EventLoop = .shared
  ) async throws -> TCPStream {
    try await connect(
      Connector(loop: loop.core, to: .host(host, port: port), options: options, timeout: timeout),
      loop)
  }

  /// Connects to `address`. As ``connect(to:port:timeout:options:loop:)`` without the look-up.
  public static func connect(
    to address: SocketAddress, timeout: Duration? = .seconds(10),
    options: TCPOptions = TCPOptions(),
    loop: EventLoop = .shared
  ) async throws -> TCPStream {
    try await connect(
      Connector(loop: loop.core, to: .address(address), options: options, timeout: timeout), loop)
  }

  private static func connect(
    _ connector: Connector, _ loop: EventLoop
  ) async throws -> TCPStream {
    try await loop.core.wait(.new) { continuation in
      connector.start { continuation.resume(with: $0.map { TCPStream($0, on: loop) }) }
    } cancel: {
      connector.cancel()
    }
  }

  /// Connects to `host`, runs `body` with the stream and closes it on every way out: in order after `body` returned, by a reset after
  /// it threw.
  ///
  /// - Throws: As ``connect(to:port:timeout:options:loop:)``, or what `body` throws.
  public static func withConnection<Value>(
    to host: String, port: Int, timeout: Duration? = .seconds(10),
    options: TCPOptions = TCPOptions(),
    loop: EventLoop = .shared, _ body: (TCPStream) async throws -> Value
  ) async throws -> Value {
    let stream = try await connect(
      to: host, port: port, timeout: timeout, options: options, loop: loop)
    return try await stream.closing(after: body)
  }

  /// Connects to `address`. As ``withConnection(to:port:timeout:options:loop:_:)`` without the look-up.
  public static func withConnection<Value>(
    to address: SocketAddress, timeout: Duration? = .seconds(10),
    options: TCPOptions = TCPOptions(),
    loop: EventLoop = .shared, _ body: (TCPStream) async throws -> Value
  ) async throws -> Value {
    let stream = try await connect(to: address, timeout: timeout, options: options, loop: loop)
    return try await stream.closing(after: body)
  }

  private func closing<Value>(
    after body: (TCPStream) async throws -> Value
  ) async throws -> Value {
    do {
      let value = try await attended { try await body(self) }
      await close()
      return value
    } catch {
      abort()
      throw error
    }
  }

  /// Whether the server that this is a client of has been told to stop, and gives its handlers their grace period. Any thread.
  ///
  /// For handlers that do not read: whoever reads gets the end of the stream when the client is silent.
  public var isDraining: Bool { core.isDraining.load(ordering: .relaxed) }

  /// The bytes that were given to writes and that the system has not taken yet. Any thread.
  public var bytesQueued: Int { core.bytesQueued }

  /// Sends what was written, then the end of the stream, and returns; the descriptor follows when the peer has closed too, or has
  /// sent nothing for two seconds.
  ///
  /// Any thread, any number of times: every call returns when the stream is closed. A read that waits ends with ``StreamClosed``.
  /// Cancelling the task has no effect; ``abort()`` ends it at once.
  ///
  /// - Parameter timeout: How long sending may take. When it is over, waiting writes fail with `timedOut` and the connection is reset.
  public func close(timeout: Duration = .seconds(10)) async {
    await withUnsafeContinuation { continuation in
      let accepted = core.loop.perform { [core] in
        core.close(timeout: timeout) { continuation.resume() }
      }
      if !accepted { continuation.resume() }
    }
  }

  /// Resets the connection. What waits on it ends with ``StreamClosed``; what was not sent is lost.
  ///
  /// Any thread, any number of times.
  public func abort() {
    // Holds `self`: dropped on the loop thread meanwhile, the stream would be closed first, and without a reset.
    core.loop.perform { self.core.abort() }
  }
}
