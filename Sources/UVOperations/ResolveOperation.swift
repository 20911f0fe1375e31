public import UV

/// Looks up the addresses of a host name.
///
/// As ``UV/EventLoop/resolve(_:port:)``, with its errors. Cancelling finishes it at once; a look-up that runs ends unseen.
public final class ResolveOperation: LoopOperation<[SocketAddress]>, @unchecked Sendable {
  // Unchecked: as LoopOperation.
  private let request: ResolveRequest
  private let requestLoop: EventLoop

  /// - Parameters:
  ///   - host: A name, or a numeric address, which is not looked up.
  ///   - port: The port that the addresses get.
  public init(_ host: String, port: Int, on loop: EventLoop = .shared) {
    request = ResolveRequest(loop: loop.core, host: host, port: port)
    requestLoop = loop
  }

  public override func main() { begin(on: requestLoop) }

  package override func startRequest() { request.start { self.requestDidEnd($0) } }

  package override func stopRequest(_ error: any Error) { request.cancel(error) }
}
