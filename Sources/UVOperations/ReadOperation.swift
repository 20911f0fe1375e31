public import UV

/// Waits for bytes of a stream. Its output is what is there, or `nil` at the end of the stream.
///
/// As ``UV/TCPStream/read(upTo:)``, with its errors. Cancelling it, and running out of ``ResultOperation/timeout``, lose no bytes: what
/// has arrived finishes it as read, what arrives later is for the next read.
public final class ReadOperation: StreamOperation<[UInt8]?>, @unchecked Sendable {
  // Unchecked: as StreamOperation.
  private let limit: Int

  /// - Parameters:
  ///   - stream: Evaluated when the operation starts.
  ///   - limit: How many bytes to take at most; at least one.
  public init(
    from stream: @autoclosure @escaping @Sendable () throws -> TCPStream, upTo limit: Int = 65_536
  ) {
    trapUnless(limit > 0, "A read must have room for a byte: `limit` is \(limit).")
    self.limit = limit
    super.init(evaluating: stream)
  }

  // Compiled for this output: in the generic class each use of the result looks its type up at run time.
  public override func whenFinished(
    _ body: @escaping @Sendable (Result<[UInt8]?, any Error>) -> Void
  ) {
    addHandler { body(unsafeDowncast($0, to: ReadOperation.self).storedResult!) }
  }

  package override func startRequest() { core.read(upTo: limit, ticket: ticket, for: self) }

  package override func stopRequest(_ error: any Error) { core.cancelRead(ticket, error) }
}

extension ReadOperation: ReadConsumer {
  package func readDidFinish(_ result: consuming Result<[UInt8]?, any Error>) {
    requestDidEnd(result)
  }
}
