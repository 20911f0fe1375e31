internal import CUV
internal import Synchronization

/// A TCP connection on its loop: what ``TCPStream`` and the operations share.
///
/// Loop thread only, but for what says otherwise. Completions are called on the loop thread, exactly once.
// Unchecked: as HandleCore; what other threads may read is atomic.
package final class StreamCore: HandleCore, @unchecked Sendable {
  /// How much is read ahead of the readers: at the mark libuv stops reading, and the sender is held by TCP.
  static let highWaterMark = 65_536

  enum Life {
    case open
    /// `close` was called: nothing new from the user; what was written is being sent.
    case flushing
    /// All is sent, and what the peer still sends is thrown away until it closes too.
    case lingering
    case ended
  }

  /// Whether there is a connection, not just an attempt at one.
  var isConnected = false
  // The hot ones go without the run-time check for overlapping accesses, as in LoopCore.
  @exclusivity(unchecked) var life = Life.open
  @exclusivity(unchecked) var inbound = InboundBytes()
  @exclusivity(unchecked) var reading = Reading.notStarted
  @exclusivity(unchecked) var reader: Reader?
  /// Whom an operation's read is for.
  @exclusivity(unchecked) var readConsumer: (any ReadConsumer)?
  @exclusivity(unchecked) var discardsInput = false
  @exclusivity(unchecked) var outbound = OutboundQueue()
  @exclusivity(unchecked) var sending = Sending.open
  @exclusivity(unchecked) var writeInFlight: BlockWrite?
  var isTellingWrites = false
  /// Writes that are done, whose completions wait for the loop's next turn.
  @exclusivity(unchecked) var writesToTell = 0
  var finRequest: FinRequest?
  var closeCompletions: [@Sendable () -> Void] = []
  var closeTimer: TimerCore?
  @exclusivity(unchecked) private(set) var timeouts: StreamTimeouts?
  var lingerDeadline = Deadline(nanoseconds: 0)
  /// Whether its receiving side was ended because of the peer's silence.
  var wasSilent = false
  /// Why the stream ended, for those who still ask.
  var endReason: (any Error)?
  /// The same, if it was not its user who ended it.
  var failure: (any Error)?
  /// When bytes last came or went, by libuv's clock.
  @exclusivity(unchecked) private(set) var lastActivity: UInt64 = 0
  @exclusivity(unchecked) var receivingTurn: UInt64 = 0
  @exclusivity(unchecked) var receivedInTurn = 0
  /// When the reader began to wait, by libuv's clock.
  @exclusivity(unchecked) var waitingSince: UInt64 = 0
  @exclusivity(unchecked) private var inlineTurn: UInt64 = 0
  @exclusivity(unchecked) private var inlineCount = 0

  /// The task whose cancellation reaches the stream by ``TCPStream/attended(_:)``, until it has.
  @exclusivity(unchecked) var attendedTask: UInt?

  /// Called once, when the descriptor is back with the system.
  var whenGone: (@Sendable () -> Void)?

  /// Names every read and write, so that a cancellation hits the one it was meant for. Any thread.
  private let lastTicket = Atomic<UInt64>(0)
  let queuedBytes = Atomic<Int>(0)

  /// Whether the server that it belongs to is stopping.
  let isDraining = Atomic<Bool>(false)

  /// For error messages: the peer's address.
  var subject: String?

  /// Where an accepted stream came from. The system forgets it when the peer resets.
  var acceptedFrom: SocketAddress?

  /// Any thread.
  package func nextTicket() -> UInt64 { lastTicket.add(1, ordering: .relaxed).newValue }

  var tcp: UnsafeMutablePointer<uv_tcp_t> { memory.assumingMemoryBound(to: uv_tcp_t.self) }
  var stream: UnsafeMutablePointer<uv_stream_t> {
    memory.assumingMemoryBound(to: uv_stream_t.self)
  }

  init(loop: LoopCore) {
    super.init(loop: loop, size: MemoryLayout<uv_tcp_t>.size)
  }

  /// Creates the libuv handle, without a socket.
  func open() throws {
    guard loop.acceptsNew else { throw EventLoopClosed() }
    let status = uv_tcp_init(loop.uv, tcp)
    guard status == 0 else { throw IOError(status, "create socket") }
    opened()
  }

  /// An attempt at a connection is not worth the grace period: nothing new may be done with it.
  override var mayFinishDuringShutdown: Bool { isConnected }

  override func loopIsClosing() { end(EventLoopClosed()) }

  override func didClose() { handleIsClosed() }

  /// Whether a call that could complete at once may do so. After a number of them in one turn of the loop it must wait for the
  /// next turn, so that one busy stream cannot keep the others waiting.
  func mayCompleteInline() -> Bool {
    if inlineTurn != loop.turn {
      inlineTurn = loop.turn
      inlineCount = 0
    }
    inlineCount += 1
    return inlineCount <= 32 && loop.mayCompleteInline()
  }

  /// Applies `options` to a connection that has just been made.
  func configure(_ options: TCPOptions) throws(IOError) {
    try options.apply(to: tcp)
    timeouts = StreamTimeouts(options, loop: loop)
    noteActivity()
    timeouts?.check(self)
  }

  /// To be called when bytes have come or gone.
  func noteActivity() {
    lastActivity = uv_now(loop.uv)
    timeouts?.noteActivity()
  }

  /// Whether everything that was written is with the kernel.
  var isFlushed: Bool { outbound.isEmpty && writeInFlight == nil }

  package var bytesQueued: Int { queuedBytes.load(ordering: .relaxed) }

  var localAddress: SocketAddress? {
    isOpen ? SocketAddress { uv_tcp_getsockname(tcp, $0, &$1) } : nil
  }

  var peerAddress: SocketAddress? {
    acceptedFrom ?? (isOpen ? SocketAddress { uv_tcp_getpeername(tcp, $0, &$1) } : nil)
  }

  /// The last holder let go of the stream.
  func wasDropped() {
    guard isOpen, life == .open else { return }
    #if DEBUG
      Report.send(
        "a TCPStream to \(subject ?? "a peer that is gone") was dropped while open; close it")
    #endif
    end(StreamClosed("write"))
  }

  /// Calls `body` with the handle if the stream is open for its user.
  package func withOpenHandle<Value>(
    _ operation: String, _ body: () throws(IOError) -> Value
  ) throws -> Value {
    loop.preconditionIsCurrent()
    guard isOpen, life == .open else { throw StreamClosed(operation) }
    return try body()
  }
}
