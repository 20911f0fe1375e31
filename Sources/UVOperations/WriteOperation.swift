public import Foundation
public import UV

/// Sends bytes on a stream, and finishes when the system has taken them all.
///
/// As ``UV/TCPStream/write(_:)-([UInt8])``, with its errors. Cancelling it, or running out of ``ResultOperation/timeout``, when a part
/// has been sent makes the stream refuse further writes.
public final class WriteOperation: StreamOperation<Void>, @unchecked Sendable {
  // Unchecked: as StreamOperation.
  @exclusivity(unchecked) private var input: (@Sendable () throws -> [UInt8])?
  @exclusivity(unchecked) private var bytes: [UInt8] = []

  /// - Parameters:
  ///   - bytes: Evaluated when the operation starts.
  ///   - stream: Evaluated when the operation starts.
  public init(
    _ bytes: @autoclosure @escaping @Sendable () throws -> [UInt8],
    to stream: @autoclosure @escaping @Sendable () throws -> TCPStream
  ) {
    input = bytes
    super.init(evaluating: stream)
  }

  /// Sends `text` in UTF-8. Inputs as in ``init(_:to:)-(()->[UInt8],_)``.
  public convenience init(
    _ text: @autoclosure @escaping @Sendable () throws -> String,
    to stream: @autoclosure @escaping @Sendable () throws -> TCPStream
  ) {
    self.init(Array(try text().utf8), to: try stream())
  }

  /// Sends `data`. Inputs as in ``init(_:to:)-(()->[UInt8],_)``.
  public convenience init(
    _ data: @autoclosure @escaping @Sendable () throws -> Data,
    to stream: @autoclosure @escaping @Sendable () throws -> TCPStream
  ) {
    self.init(Array(try data()), to: try stream())
  }

  // Compiled for this output, as in ReadOperation.
  public override func whenFinished(
    _ body: @escaping @Sendable (Result<Void, any Error>) -> Void
  ) {
    addHandler { body(unsafeDowncast($0, to: WriteOperation.self).storedResult!) }
  }

  package override func evaluateInputs() throws {
    if let input = input.take() { bytes = try input() }
  }

  package override func startRequest() { core.write(bytes, ticket: ticket, for: self) }

  package override func stopRequest(_ error: any Error) { core.cancelWrite(ticket, error) }

  public override func releaseResources() {
    super.releaseResources()
    input = nil
    bytes = []
  }
}

extension WriteOperation: WriteConsumer {
  package func writeDidFinish(_ result: consuming Result<Void, any Error>) { requestDidEnd(result) }
}
