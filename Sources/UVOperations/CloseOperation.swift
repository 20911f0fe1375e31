public import UV

/// Closes a stream: sends what was written and the end of the stream.
///
/// As ``UV/TCPStream/close(timeout:)``. It succeeds also for a stream that is closed already, or whose peer is gone. Cancelling it resets
/// the connection.
public final class CloseOperation: StreamOperation<Void>, @unchecked Sendable {
  // Unchecked: as StreamOperation.
  private let sendingTime: Duration

  /// - Parameters:
  ///   - stream: Evaluated when the operation starts.
  ///   - sendingTime: How long sending may take before the connection is reset.
  public init(
    _ stream: @autoclosure @escaping @Sendable () throws -> TCPStream,
    within sendingTime: Duration = .seconds(10)
  ) {
    self.sendingTime = sendingTime
    super.init(evaluating: stream)
  }

  package override func startRequest() {
    core.close(timeout: sendingTime) { self.requestDidEnd(.success(())) }
  }

  // Finishing it by hand must not reset the connection.
  package override var stopsWhenFinishedByHand: Bool { false }

  package override func stopRequest(_ error: any Error) {
    core.abort()
    finish(throwing: error)
  }
}
