public import UV

/// Waits for the next client of a listener. Its output is the stream, which is the user's to close.
///
/// As ``UV/TCPListener/accept(on:)``, with its errors. Several may wait, and are served in the order of their starts. Cancelling loses no
/// client. A stream that nobody takes from a finished operation is closed with it.
public final class AcceptOperation: LoopOperation<TCPStream>, @unchecked Sendable {
  // Unchecked: as LoopOperation.
  private let listener: TCPListener
  private let ticket: UInt64

  public init(from listener: TCPListener) {
    self.listener = listener
    ticket = listener.nextTicket()
  }

  public override func main() { begin(on: listener.loop) }

  package override func startRequest() {
    listener.core.accept(ticket: ticket) { result in
      self.requestDidEnd(result.map { TCPStream($0, on: self.listener.loop) })
    }
  }

  package override func stopRequest(_ error: any Error) {
    listener.core.cancelAccept(ticket, error)
  }
}
