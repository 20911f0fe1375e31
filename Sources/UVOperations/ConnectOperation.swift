public import UV

/// Connects to a host. Its output is the stream, which is the user's to close.
///
/// As ``UV/TCPStream/connect(to:port:timeout:options:loop:)``, with its errors; ``ResultOperation/timeout`` is ten seconds unless set
/// otherwise, and ends it with `timedOut`. A stream that nobody takes from a finished operation is closed with it.
public final class ConnectOperation: LoopOperation<TCPStream>, @unchecked Sendable {
  // Unchecked: as LoopOperation.
  private let connector: Connector
  private let streamLoop: EventLoop

  /// Connects to `host`, a name or a numeric address, trying all of its addresses.
  public convenience init(
    to host: String, port: Int, options: TCPOptions = TCPOptions(), on loop: EventLoop = .shared
  ) {
    self.init(target: .host(host, port: port), options, loop)
  }

  /// Connects to `address`.
  public convenience init(
    to address: SocketAddress, options: TCPOptions = TCPOptions(), on loop: EventLoop = .shared
  ) {
    self.init(target: .address(address), options, loop)
  }

  private init(target: Connector.Target, _ options: TCPOptions, _ loop: EventLoop) {
    connector = Connector(loop: loop.core, to: target, options: options, timeout: nil)
    streamLoop = loop
    super.init()
    timeout = .seconds(10)
  }

  public override func main() { begin(on: streamLoop) }

  package override func startRequest() {
    connector.start { result in
      self.requestDidEnd(result.map { TCPStream($0, on: self.streamLoop) })
    }
  }

  package override func stopRequest(_ error: any Error) { connector.cancel(error) }

  package override var timeoutError: any Error {
    IOError(.timedOut, "connect", connector.subject)
  }
}
