internal import CUV

/// A POSIX signal, such as `SIGINT`.
public struct Signal: RawRepresentable, Hashable, Sendable {
  public let rawValue: CInt

  public init(rawValue: CInt) { self.rawValue = rawValue }

  public static let hangUp = Signal(rawValue: SIGHUP)  // SIGHUP
  public static let interrupt = Signal(rawValue: SIGINT)  // SIGINT, Ctrl-C
  public static let quit = Signal(rawValue: SIGQUIT)  // SIGQUIT
  public static let terminate = Signal(rawValue: SIGTERM)  // SIGTERM
  public static let user1 = Signal(rawValue: SIGUSR1)  // SIGUSR1
  public static let user2 = Signal(rawValue: SIGUSR2)  // SIGUSR2
  public static let child = Signal(rawValue: SIGCHLD)  // SIGCHLD
  public static let windowChange = Signal(rawValue: SIGWINCH)  // SIGWINCH
}

extension Signal: CustomStringConvertible {
  public var description: String { "signal \(rawValue)" }
}

extension EventLoop {
  /// Runs `body` on the loop thread for each `signal` that the process receives, until the observer is cancelled or dropped.
  ///
  /// Any thread. Called on the loop thread it observes at once, from elsewhere when the loop gets to it: until then the signal
  /// does what it does by default. While it is observed anywhere it does not; when the last observer is gone
  /// [libuv](https://docs.libuv.org/en/v1.x/signal.html) restores the default, not a handler that was installed before. The
  /// same signal several times within one turn of the loop may be seen once.
  ///
  /// - Throws: ``IOError`` with `invalidArgument` for a signal that cannot be observed, ``EventLoopClosed`` once the loop is
  ///   shutting down.
  public func observe(
    _ signal: Signal, _ body: @escaping @Sendable (Signal) -> Void
  ) throws -> SignalObserver {
    try SignalObserver(signal, on: core, body)
  }

  /// The same, for a `body` that does not ask which signal it was.
  public func observe(
    _ signal: Signal, _ body: @escaping @Sendable () -> Void
  ) throws -> SignalObserver {
    try observe(signal) { _ in body() }
  }

  /// The signals that the process receives, as a sequence, from when `observe` would begin.
  ///
  /// Any thread. Observing ends with the last copy of the sequence or its iteration, and the sequence ends when the loop shuts
  /// down. Signals that nobody has taken are kept up to sixteen, the newest.
  ///
  /// - Throws: As `observe`.
  public func signals(_ signals: Signal...) throws -> AsyncStream<Signal> {
    try signalStream(signals)
  }

  /// Waits for the first of `signals`.
  ///
  /// - Returns: `nil` when the task is cancelled or the loop shuts down first.
  /// - Throws: As `observe`.
  public func waitUntilSignal(_ signals: Signal...) async throws -> Signal? {
    var iterator = try signalStream(signals).makeAsyncIterator()
    return await iterator.next()
  }

  private func signalStream(_ signals: [Signal]) throws -> AsyncStream<Signal> {
    let (stream, continuation) = AsyncStream.makeStream(
      of: Signal.self, bufferingPolicy: .bufferingNewest(16))
    let observers = try signals.map { signal in
      try SignalObserver(signal, on: core, whenClosed: { continuation.finish() }) {
        continuation.yield($0)
      }
    }
    continuation.onTermination = { _ in
      for observer in observers { observer.cancel() }
    }
    return stream
  }
}

/// Watches for a signal until it is cancelled or dropped. Any thread may do either.
public final class SignalObserver: Sendable {
  private let core: SignalCore

  fileprivate init(
    _ signal: Signal, on loop: LoopCore, whenClosed: (@Sendable () -> Void)? = nil,
    _ body: @escaping @Sendable (Signal) -> Void
  ) throws {
    guard signal.isObservable else {
      throw IOError(.invalidArgument, "observe", signal.description)
    }
    let core = SignalCore(loop: loop, signal, whenClosed, body)
    guard loop.performNew({ core.start() }) else { throw EventLoopClosed() }
    self.core = core
  }

  deinit { cancel() }

  /// Ends the watching. Harmless twice.
  public func cancel() {
    core.loop.perform { [core] in core.closeHandle() }
  }
}

extension Signal {
  /// The system refuses handlers for two signals, and the C library keeps two numbers for itself.
  fileprivate var isObservable: Bool {
    (1...64).contains(rawValue) && ![SIGKILL, SIGSTOP, 32, 33].contains(rawValue)
  }
}

/// A libuv signal handle. Loop thread only, but for `init`.
// Unchecked: as HandleCore.
private final class SignalCore: HandleCore, @unchecked Sendable {
  private let signal: Signal
  private let body: @Sendable (Signal) -> Void
  private let whenClosed: (@Sendable () -> Void)?

  init(
    loop: LoopCore, _ signal: Signal, _ whenClosed: (@Sendable () -> Void)?,
    _ body: @escaping @Sendable (Signal) -> Void
  ) {
    self.signal = signal
    self.body = body
    self.whenClosed = whenClosed
    super.init(loop: loop, size: MemoryLayout<uv_signal_t>.size)
  }

  private var observer: UnsafeMutablePointer<uv_signal_t> {
    memory.assumingMemoryBound(to: uv_signal_t.self)
  }

  func start() {
    guard phase == .unopened, loop.acceptsNew, uv_signal_init(loop.uv, observer) == 0 else {
      whenClosed?()
      return
    }
    opened()
    let status = uv_signal_start(observer, signalDidArrive, signal.rawValue)
    if status != 0 {
      Report.send("\(IOError(status, "observe", signal.description))")
      closeHandle()
    }
  }

  func deliver() {
    if isOpen { body(signal) }
  }

  override func didClose() { whenClosed?() }
}

private func signalDidArrive(_ handle: UnsafeMutablePointer<uv_signal_t>?, _ number: CInt) {
  withHandleCore(handle!.pointee.data, as: SignalCore.self) { $0.deliver() }
}
