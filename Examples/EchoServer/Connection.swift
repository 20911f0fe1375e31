import Foundation
import Synchronization
import UV
import UVOperations

/// Returns to one client what it sends: read, write, read, ... until the client has sent its end.
final class Connection: Sendable {
  /// While the server stops, a connection that is silent for so long counts as idle.
  private static let idleWhileStopping = Duration.milliseconds(250)

  private let stream: TCPStream
  private let server: EchoServer
  private let waitingRead = Mutex<ReadOperation?>(nil)

  init(_ stream: TCPStream, of server: EchoServer) {
    self.stream = stream
    self.server = server
  }

  func start() { readNext() }

  private func readNext() {
    let read = ReadOperation(from: self.stream)
    read.whenFinished { self.didRead($0) }
    // Kept before the look at `isStopping`: either a stop finds this read, or this finds the stop.
    waitingRead.withLock { $0 = read }
    if let patience { read.timeout = patience }
    server.run(read)
  }

  /// How long the client may be silent, if there is a limit.
  private var patience: Duration? {
    server.isStopping ? Connection.idleWhileStopping : server.options.idleTimeout
  }

  private func didRead(_ result: Result<[UInt8]?, any Error>) {
    waitingRead.withLock { $0 = nil }
    switch result {
    case .success(let bytes?): write(bytes)
    case .success(nil): close()
    // The server is stopping, which makes the next read impatient.
    case .failure(is CancellationError): readNext()
    case .failure: close()  // Silent for too long, or gone.
    }
  }

  private func write(_ bytes: [UInt8]) {
    let write = WriteOperation(bytes, to: self.stream)
    // A client that does not read is silent too.
    if let limit = server.options.idleTimeout { write.timeout = limit }
    write.whenFinished { result in
      switch result {
      case .success:
        self.server.traffic.count(bytes.count)
        self.readNext()
      case .failure:
        self.close()
      }
    }
    server.run(write)
  }

  private func close() {
    let close = CloseOperation(self.stream)
    close.whenFinished { _ in self.server.connectionEnded(self) }
    server.run(close)
  }

  /// Makes a connection that waits for its client look again, with the server stopping.
  func serverIsStopping() { waitingRead.withLock { $0 }?.cancel() }

  /// Ends the connection: whatever waits on it fails, and so it is closed.
  func abort() { stream.abort() }
}
