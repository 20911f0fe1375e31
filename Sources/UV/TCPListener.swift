internal import CUV
internal import Glibc
internal import Synchronization

/// A socket that listens for TCP connections.
///
/// Any thread. Nothing is accepted unless somebody waits in ``accept(on:)``; meanwhile clients wait in the system's queue. When the
/// process runs out of descriptors, accepting pauses and goes on by itself, and a line goes to ``Report`` at most every ten
/// seconds. A listener that is dropped is closed.
public final class TCPListener: Sendable {
  public struct Options: Hashable, Sendable {
    /// How many clients the system lets wait; it may cut this to a limit of its own: `listen(2)`.
    public var backlog = 1_024

    /// Let several sockets listen on one port, the system spreading the clients: `SO_REUSEPORT`.
    public var reusePort = false

    /// Whether a listener on an IPv6 address refuses IPv4 clients: `IPV6_V6ONLY`.
    public var ipv6Only = false

    /// How many accepted streams may be open at once; further clients wait in the system's queue. `nil` for no limit.
    public var maxConnections: Int?

    /// What accepted streams ask of the system.
    public var stream = TCPOptions()

    public init() {}
  }

  /// The loop that accepted streams live on.
  public let loop: EventLoop

  /// The address it listens on, with the real port if port 0 was asked for.
  public let localAddress: SocketAddress

  package let core: ListenerCore
  private let lastTicket = Atomic<UInt64>(0)

  /// Binds to `address` and listens, when this returns.
  ///
  /// - Throws: ``IOError`` such as `addressInUse`, `addressNotAvailable` or `permissionDenied`; ``EventLoopClosed``.
  public convenience init(
    on address: SocketAddress, options: Options = Options(), loop: EventLoop = .shared
  ) throws {
    try self.init(descriptor: listeningSocket(on: address, options), options, loop)
  }

  /// Takes over a socket that listens already, such as one that a service manager passed on: ``InheritedSocket``.
  ///
  /// The descriptor belongs to the listener from here on, also when this throws.
  ///
  /// - Throws: ``IOError`` if `descriptor` is not a listening TCP socket; ``EventLoopClosed``.
  public convenience init(
    adopting descriptor: CInt, options: Options = Options(), loop: EventLoop = .shared
  ) throws {
    try prepareAdopted(descriptor)
    try self.init(descriptor: descriptor, options, loop)
  }

  private init(descriptor: CInt, _ options: Options, _ loop: EventLoop) throws {
    guard let address = boundAddress(of: descriptor) else {
      Glibc.close(descriptor)
      throw IOError(.invalidArgument, "listen")
    }
    let core = ListenerCore(loop: loop.core, descriptor, options, subject: "\(address)")
    guard loop.core.performNew({ core.open() }) else { throw EventLoopClosed() }
    self.loop = loop
    localAddress = address
    self.core = core
  }

  deinit {
    core.loop.perform { [core] in core.close {} }
  }

  /// Waits for the next client.
  ///
  /// Any thread; several may wait, and are served in turn. The stream is the caller's to close.
  ///
  /// - Parameter other: The loop that the stream is to live on; the listener's if `nil`.
  /// - Throws: ``StreamClosed`` when the listener is closed, `CancellationError` when the task is cancelled, which loses no client,
  ///   ``EventLoopClosed``; ``IOError`` if this client was gone before it was set up, or if the system fails for good.
  public func accept(on other: EventLoop? = nil) async throws -> TCPStream {
    let ticket = nextTicket()
    let target = other ?? loop
    return try await core.loop.wait { [core] continuation in
      core.accept(ticket: ticket, on: target.core) {
        continuation.resume(with: $0.map { TCPStream($0, on: target) })
      }
    } cancel: { [core] in
      core.cancelAccept(ticket)
    }
  }

  /// Stops listening. The port is free when this returns; accepted streams stay open.
  ///
  /// Any thread, any number of times.
  public func close() async {
    await withUnsafeContinuation { continuation in
      let accepted = core.loop.perform { [core] in core.close { continuation.resume() } }
      if !accepted { continuation.resume() }
    }
  }

  /// Listens while `body` runs, and closes the listener on every way out.
  ///
  /// - Throws: As ``init(on:options:loop:)``, or what `body` throws.
  public static func withListener<Value>(
    on address: SocketAddress, options: Options = Options(), loop: EventLoop = .shared,
    _ body: (TCPListener) async throws -> Value
  ) async throws -> Value {
    let listener = try TCPListener(on: address, options: options, loop: loop)
    do {
      let value = try await body(listener)
      await listener.close()
      return value
    } catch {
      await listener.close()
      throw error
    }
  }

  package func nextTicket() -> UInt64 { lastTicket.add(1, ordering: .relaxed).newValue }
}

private func listeningSocket(
  on address: SocketAddress, _ options: TCPListener.Options
) throws(IOError) -> CInt {
  let subject = "\(address)"
  let family = address.family == .ipv4 ? AF_INET : AF_INET6
  let kind =
    CInt(SOCK_STREAM.rawValue) | CInt(SOCK_NONBLOCK.rawValue) | CInt(SOCK_CLOEXEC.rawValue)
  let descriptor = socket(family, kind, 0)
  guard descriptor >= 0 else { throw IOError(errno: errno, "listen", subject) }
  do throws(IOError) {
    // So that a restarted server is not refused for connections of the one before.
    try setOption(descriptor, SOL_SOCKET, SO_REUSEADDR, true)
    if options.reusePort { try setOption(descriptor, SOL_SOCKET, SO_REUSEPORT, true) }
    if address.family == .ipv6 {
      try setOption(descriptor, CInt(IPPROTO_IPV6), IPV6_V6ONLY, options.ipv6Only)
    }
    let bound = address.withSockaddr { bind(descriptor, $0, $1) }
    guard bound == 0 else { throw IOError(errno: errno, "bind", subject) }
    guard listen(descriptor, CInt(clamping: options.backlog)) == 0 else {
      throw IOError(errno: errno, "listen", subject)
    }
    return descriptor
  } catch {
    close(descriptor)
    throw error
  }
}

private func setOption(
  _ descriptor: CInt, _ level: CInt, _ option: CInt, _ isOn: Bool
) throws(IOError) {
  var value: CInt = isOn ? 1 : 0
  guard setsockopt(descriptor, level, option, &value, socklen_t(MemoryLayout<CInt>.size)) == 0
  else {
    throw IOError(errno: errno, "set option")
  }
}

private func prepareAdopted(_ descriptor: CInt) throws(IOError) {
  var listens: CInt = 0
  var length = socklen_t(MemoryLayout<CInt>.size)
  let status = getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length)
  guard status == 0, listens == 1 else {
    let error =
      status == 0
      ? IOError(.invalidArgument, "listen", "descriptor \(descriptor)")
      : IOError(errno: errno, "listen", "descriptor \(descriptor)")
    // A number that nobody had could by now be somebody's.
    if error.code != .badDescriptor { close(descriptor) }
    throw error
  }
  _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
  _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
}

private func boundAddress(of descriptor: CInt) -> SocketAddress? {
  SocketAddress { pointer, length in
    var size = socklen_t(length)
    return getsockname(descriptor, pointer, &size)
  }
}
