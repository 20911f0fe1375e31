public import UV

/// Sends the end of the stream after what was written; reading goes on.
///
/// As ``UV/TCPStream/shutdownSending()``, with its errors. Cancelling it, or running out of ``ResultOperation/timeout``, ends the waiting,
/// not the shutdown.
public final class ShutdownOperation: StreamOperation<Void>, @unchecked Sendable {
  // Unchecked: as StreamOperation.

  /// - Parameter stream: Evaluated when the operation starts.
  public init(_ stream: @autoclosure @escaping @Sendable () throws -> TCPStream) {
    super.init(evaluating: stream)
  }

  package override func startRequest() { core.shutdownSending { self.requestDidEnd($0) } }

  package override func stopRequest(_ error: any Error) { finish(throwing: error) }
}
