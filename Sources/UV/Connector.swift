internal import CUV

/// Connects to a host: looks its addresses up and tries them, the first to answer wins.
///
/// After [RFC 8305](https://www.rfc-editor.org/rfc/rfc8305): the families alternate, starting with the one the system prefers, and
/// the next address is tried when one has failed or has been silent for 250 ms.
///
/// Loop thread only, but for `init`. It holds itself through what it waits for, and is gone when it has ended.
// Unchecked: the variables are loop thread only.
package final class Connector: @unchecked Sendable {
  package typealias Completion = (Result<StreamCore, any Error>) -> Void

  package enum Target: Sendable {
    case address(SocketAddress)
    case host(String, port: Int)
  }

  private static let attemptDelay = Duration.milliseconds(250)

  private let loop: LoopCore
  private let target: Target
  private let options: TCPOptions
  private let timeout: Duration?
  private var completion: Completion?
  private var lookUp: ResolveRequest?
  private var candidates: ArraySlice<SocketAddress> = []
  private var attempts: [ConnectAttempt] = []
  private var nextAttempt: TimerCore?
  private var timeoutTimer: TimerCore?
  private var lastError: (any Error)?

  package init(loop: LoopCore, to target: Target, options: TCPOptions, timeout: Duration?) {
    self.loop = loop
    self.target = target
    self.options = options
    self.timeout = timeout
  }

  /// Calls `completion` exactly once. The stream is the receiver's to close.
  package func start(_ completion: @escaping Completion) {
    loop.preconditionIsCurrent()
    guard loop.acceptsNew else { return completion(.failure(EventLoopClosed())) }
    self.completion = completion
    armTimeout()
    switch target {
    case .address(let address): tryAll([address])
    case .host(let host, let port): look(up: host, port)
    }
  }

  /// Ends with `error` at once; what was begun is closed.
  package func cancel(_ error: any Error = CancellationError()) { finish(.failure(error)) }

  package var subject: String {
    switch target {
    case .address(let address): "\(address)"
    case .host(let host, let port): host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }
  }

  private func armTimeout() {
    guard let timeout else { return }
    let timer = TimerCore(loop: loop)
    timeoutTimer = timer
    timer.arm(Deadline(after: timeout)) { self.cancel(IOError(.timedOut, "connect", self.subject)) }
  }

  private func look(up host: String, _ port: Int) {
    let request = ResolveRequest(loop: loop, host: host, port: port)
    lookUp = request
    request.start { result in
      self.lookUp = nil
      switch result {
      case .success(let addresses): self.tryAll(addresses.alternatingFamilies())
      case .failure(let error): self.finish(.failure(error))
      }
    }
  }

  private func tryAll(_ addresses: [SocketAddress]) {
    guard completion != nil else { return }
    candidates = addresses[...]
    tryNext()
  }

  private func tryNext() {
    guard let address = candidates.popFirst() else {
      if attempts.isEmpty { fail() }
      return
    }
    let attempt = ConnectAttempt(StreamCore(loop: loop), to: address, options)
    attempts.append(attempt)
    if !candidates.isEmpty { armNextAttempt() }
    attempt.start { self.attempt(attempt, endedWith: $0) }
  }

  private func armNextAttempt() {
    let timer = nextAttempt ?? TimerCore(loop: loop)
    nextAttempt = timer
    timer.arm(Deadline(after: Connector.attemptDelay)) { self.tryNext() }
  }

  private func attempt(_ attempt: ConnectAttempt, endedWith error: (any Error)?) {
    attempts.removeAll { $0 === attempt }
    guard completion != nil else { return attempt.abandon() }
    guard let error else { return finish(.success(attempt.stream)) }
    lastError = error
    attempt.abandon()
    tryNext()
  }

  private func fail() {
    if let error = lastError as? IOError {
      finish(.failure(IOError(error.code, "connect", subject)))
    } else {
      finish(.failure(lastError ?? IOError(.nameNotKnown, "connect", subject)))
    }
  }

  private func finish(_ result: Result<StreamCore, any Error>) {
    guard let completion else { return }
    self.completion = nil
    lookUp?.cancel(CancellationError())
    nextAttempt?.discard()
    timeoutTimer?.discard()
    for attempt in attempts { attempt.abandon() }
    attempts = []
    completion(result)
  }
}

extension [SocketAddress] {
  /// The same addresses, the families taking turns, in the order in which the families and their members come.
  package func alternatingFamilies() -> [SocketAddress] {
    guard let first else { return [] }
    let same = filter { $0.family == first.family }
    let other = filter { $0.family != first.family }
    return (0..<Swift.max(same.count, other.count)).flatMap { index in
      [same, other].compactMap { index < $0.count ? $0[index] : nil }
    }
  }
}

/// One attempt at one address.
///
/// libuv holds a reference from a successful `uv_tcp_connect` until `connectDidFinish`, which comes before the close callback of
/// an abandoned stream. Loop thread only.
final class ConnectAttempt {
  let stream: StreamCore
  private let address: SocketAddress
  private let options: TCPOptions
  private let request = UnsafeMutablePointer<uv_connect_t>.allocate(capacity: 1)
  private var completion: (((any Error)?) -> Void)?

  init(_ stream: StreamCore, to address: SocketAddress, _ options: TCPOptions) {
    self.stream = stream
    self.address = address
    self.options = options
  }

  deinit { request.deallocate() }

  func start(_ completion: @escaping ((any Error)?) -> Void) {
    do {
      try stream.open()
      stream.subject = "\(address)"
      self.completion = completion
      // Released in connectDidFinish.
      request.pointee.data = Unmanaged.passRetained(self).toOpaque()
      let status = address.withSockaddr { pointer, _ in
        uv_tcp_connect(request, stream.tcp, pointer, connectDidFinish)
      }
      guard status != 0 else { return }
      Unmanaged.passUnretained(self).release()  // Refused: the callback will never run.
      finish(status)
    } catch {
      completion(error)
    }
  }

  /// Closes the stream without a word.
  func abandon() {
    completion = nil
    stream.end(StreamClosed("connect"))
  }

  fileprivate func finish(_ status: CInt) {
    guard let completion else { return }
    self.completion = nil
    stream.isConnected = status == 0
    completion(
      status == 0 ? applyOptions() : stream.endReason ?? IOError(status, "connect", "\(address)"))
  }

  private func applyOptions() -> (any Error)? {
    guard stream.isOpen else { return stream.closedError("connect") }
    do {
      try stream.configure(options)
      return nil
    } catch {
      return error
    }
  }
}

private func connectDidFinish(_ request: UnsafeMutablePointer<uv_connect_t>?, _ status: CInt) {
  Unmanaged<ConnectAttempt>.fromOpaque(request!.pointee.data).takeRetainedValue().finish(status)
}
