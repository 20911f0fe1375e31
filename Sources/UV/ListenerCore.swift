internal import CUV
internal import Glibc

/// A listening socket on its loop.
///
/// The socket is ours and libuv polls it. libuv's own listener, when descriptors run out, accepts and closes every waiting client
/// without telling anybody (`uv__emfile_trick`); here they wait in the system's queue.
///
/// Loop thread only, but for `init`. Completions are called on the loop thread, exactly once.
// Unchecked: as HandleCore.
package final class ListenerCore: HandleCore, @unchecked Sendable {
  package typealias Completion = @Sendable (Result<StreamCore, any Error>) -> Void

  private static let backOff = Duration.milliseconds(100)
  private static let reportInterval = Duration.seconds(10)
  /// A flood of clients must not keep the streams waiting.
  private static let acceptsPerTurn = 64

  private struct Acceptor {
    let ticket: UInt64
    /// Where the stream is to live.
    let loop: LoopCore
    let completion: Completion
  }

  private let descriptor: CInt
  private let options: TCPListener.Options
  private var maxConnections: Int?
  private let subject: String
  private var waiting: [Acceptor] = []
  private var isPolling = false
  private var live = 0
  private var backOffTimer: TimerCore?
  private var nextReport = Deadline(nanoseconds: 0)
  private var endReason: (any Error)?
  private var closeCompletions: [@Sendable () -> Void] = []

  private var poll: UnsafeMutablePointer<uv_poll_t> {
    memory.assumingMemoryBound(to: uv_poll_t.self)
  }

  /// Takes over `descriptor`, a listening socket that does not block.
  init(loop: LoopCore, _ descriptor: CInt, _ options: TCPListener.Options, subject: String) {
    self.descriptor = descriptor
    self.options = options
    maxConnections = options.maxConnections
    self.subject = subject
    super.init(loop: loop, size: MemoryLayout<uv_poll_t>.size)
  }

  deinit {
    // Closed with the handle, unless there never was one.
    if phase == .unopened { Glibc.close(descriptor) }
  }

  func open() {
    guard phase == .unopened else { return }
    guard loop.acceptsNew else { return end(EventLoopClosed()) }
    let status = uv_poll_init(loop.uv, poll, descriptor)
    guard status == 0 else { return end(IOError(status, "listen", subject)) }
    opened()
    acceptWaiting()
  }

  /// Hands the next connection to `completion`, first come, first served.
  ///
  /// - Parameter target: The loop that the stream is to live on, and where `completion` is called for a stream; this one if `nil`.
  package func accept(
    ticket: UInt64, on target: LoopCore? = nil, _ completion: @escaping Completion
  ) {
    loop.preconditionIsCurrent()
    guard endReason == nil else { return completion(.failure(closedError)) }
    waiting.append(Acceptor(ticket: ticket, loop: target ?? loop, completion: completion))
    // While libuv polls, the poll tells of what is there. No call is made inside `accept`: it could complete at once.
    if !isPolling { startPolling() }
  }

  package func cancelAccept(_ ticket: UInt64, _ error: any Error = CancellationError()) {
    guard let index = waiting.firstIndex(where: { $0.ticket == ticket }) else { return }
    let completion = waiting.remove(at: index).completion
    loop.complete { completion(.failure(error)) }
  }

  /// Stops listening; the port is free when `completion` is called. Those who wait get ``StreamClosed``.
  package func close(_ completion: @escaping @Sendable () -> Void) {
    end(StreamClosed("accept"))
    if phase == .closing { closeCompletions.append(completion) } else { completion() }
  }

  override func loopIsClosing() { end(EventLoopClosed()) }

  /// What a call gets that comes too late: how the system failed, if that is why.
  private var closedError: any Error { endReason ?? StreamClosed("accept") }

  /// Whether nothing will be accepted any more.
  var hasEnded: Bool { endReason != nil }

  private func end(_ reason: any Error) {
    guard endReason == nil else { return }
    endReason = reason
    backOffTimer?.discard()
    if isOpen || phase == .unopened {
      isPolling = false
      closeHandle()
      Glibc.close(descriptor)
    }
    let left = waiting
    waiting = []
    for accept in left { loop.complete { accept.completion(.failure(reason)) } }
  }

  override func didClose() {
    for completion in closeCompletions { loop.complete(completion) }
    closeCompletions = []
  }

  // MARK: Accepting

  private var isFull: Bool { maxConnections.map { live >= $0 } ?? false }

  /// Lets fewer streams be open at once than the options do.
  func limitConnections(to count: Int) {
    maxConnections = min(count, maxConnections ?? count)
  }

  private func startPolling() {
    guard isOpen, !isPolling, !isFull, backOffTimer == nil else { return }
    isPolling = uv_poll_start(poll, CInt(UV_READABLE.rawValue), connectionIsWaiting) == 0
  }

  private func stopPolling() {
    guard isPolling else { return }
    uv_poll_stop(poll)
    isPolling = false
  }

  fileprivate func acceptWaiting() {
    for _ in 0..<ListenerCore.acceptsPerTurn {
      guard isOpen, !waiting.isEmpty, !isFull, backOffTimer == nil else {
        // Nobody takes the next one: the clients wait in the system's queue.
        return stopPolling()
      }
      let accepted = acceptOne()
      if accepted == 0 { break }
    }
    // The poll tells of those that are left in the next turn, and of later ones.
    startPolling()
  }

  /// - Returns: 0 if there was nothing to accept.
  private func acceptOne() -> Int {
    var peer = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    let descriptor = withUnsafeMutableBytes(of: &peer) {
      accept4(
        self.descriptor, $0.baseAddress!.assumingMemoryBound(to: sockaddr.self), &length,
        CInt(SOCK_NONBLOCK.rawValue) | CInt(SOCK_CLOEXEC.rawValue))
    }
    guard descriptor >= 0 else { return acceptFailed(errno) }
    let address = withUnsafeBytes(of: &peer) {
      SocketAddress($0.baseAddress!.assumingMemoryBound(to: sockaddr.self))
    }
    deliver(descriptor, from: address)
    return 1
  }

  private func acceptFailed(_ number: CInt) -> Int {
    switch number {
    case EAGAIN:
      return 0
    case EINTR, ECONNABORTED, EPROTO, ENETDOWN, ENOPROTOOPT, EHOSTDOWN, ENONET, EHOSTUNREACH,
      EOPNOTSUPP, ENETUNREACH, EPERM:
      // That connection is gone or was forbidden; accept(2) says to go on with the next.
      return 1
    case EMFILE, ENFILE, ENOBUFS, ENOMEM:
      backOff(IOError(errno: number, "accept", subject))
      return 1
    default:
      end(IOError(errno: number, "accept", subject))
      return 1
    }
  }

  private func deliver(_ descriptor: CInt, from peer: SocketAddress?) {
    let next = waiting.removeFirst()
    live += 1
    let open = { @Sendable [self] in
      let stream = Result { try self.open(descriptor, from: peer, on: next.loop) }
      next.loop.complete { next.completion(stream) }
    }
    guard !next.loop.performNew(open) else { return }
    // The other loop takes nothing new: who accepts should know, and the client sees the end.
    Glibc.close(descriptor)
    live -= 1
    loop.complete { next.completion(.failure(EventLoopClosed())) }
  }

  /// Called on the thread of `target`.
  private func open(
    _ descriptor: CInt, from peer: SocketAddress?, on target: LoopCore
  ) throws -> StreamCore {
    let stream = StreamCore(loop: target)
    do {
      try stream.adopt(descriptor)
    } catch {
      loop.perform { self.streamIsGone() }
      throw error
    }
    stream.whenGone = { [weak self] in self?.loop.perform { [weak self] in self?.streamIsGone() } }
    stream.subject = peer.map { "\($0)" }
    stream.acceptedFrom = peer
    do {
      try stream.configure(options.stream)
    } catch {
      // The client was gone before its options were set, or the option is refused for all: who accepts should know.
      stream.end(error)
      throw error
    }
    return stream
  }

  private func streamIsGone() {
    live -= 1
    if !waiting.isEmpty { startPolling() }
  }

  // MARK: Out of descriptors

  /// Stops accepting for a moment. Those who accept go on waiting, and so do the clients.
  private func backOff(_ error: IOError) {
    report(error)
    let timer = TimerCore(loop: loop)
    backOffTimer = timer
    timer.arm(Deadline(after: ListenerCore.backOff)) { [self] in
      timer.discard()
      backOffTimer = nil
      acceptWaiting()
    }
  }

  private func report(_ error: IOError) {
    let now = Deadline.now
    guard now >= nextReport else { return }
    nextReport = Deadline(after: ListenerCore.reportInterval)
    Report.send("\(error); waiting clients are accepted when descriptors or memory are free again")
  }
}

private func connectionIsWaiting(
  _ handle: UnsafeMutablePointer<uv_poll_t>?, _ status: CInt, _ events: CInt
) {
  withHandleCore(handle!.pointee.data, as: ListenerCore.self) { $0.acceptWaiting() }
}

extension StreamCore {
  /// Takes over `descriptor`, a connected socket. It is closed with the stream, or at once if it is refused.
  func adopt(_ descriptor: CInt) throws {
    do {
      try open()
    } catch {
      Glibc.close(descriptor)
      throw error
    }
    let status = uv_tcp_open(tcp, descriptor)
    guard status == 0 else {
      Glibc.close(descriptor)
      throw IOError(status, "accept")
    }
    isConnected = true
  }
}
