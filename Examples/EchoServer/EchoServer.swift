import Foundation
import Synchronization
import UV
import UVOperations

/// The echo server with operations: accepts connections, and ends in order on Ctrl-C or SIGTERM.
final class EchoServer: Sendable {
  private struct State {
    var connections: [ObjectIdentifier: Connection] = [:]
    var served = 0
    var keptAlive: [any Sendable] = []
  }

  let options: Options
  let traffic = Traffic()
  private let listener: TCPListener
  private let queue: OperationQueue
  private let state = Mutex(State())
  private let stopping = Atomic<Bool>(false)
  private let finished = Atomic<Bool>(false)

  init(_ address: SocketAddress, _ options: Options) throws {
    self.options = options
    var listening = TCPListener.Options()
    listening.maxConnections = options.maxConnections
    listener = try TCPListener(on: address, options: listening, loop: .main)
    queue = options.queue == .dispatch ? OperationQueue() : OperationQueue(on: .main)
  }

  func start() throws {
    // Before anybody is told that the server runs, and may ask it to stop.
    let interrupt = try EventLoop.main.observe(.interrupt) { _ in self.stop() }
    let terminate = try EventLoop.main.observe(.terminate) { _ in self.stop() }
    state.withLock { $0.keptAlive = [interrupt, terminate] }
    print("listening on \(listener.localAddress)")
    fflush(nil)
    if options.showsStatistics { try Statistics(of: traffic) { self.connectionCount }.start() }
    acceptNext()
  }

  /// Runs `operation` in the way that was asked for.
  func run(_ operation: Operation) {
    if options.queue == .direct { operation.start() } else { queue.addOperation(operation) }
  }

  var connectionCount: Int { state.withLock { $0.connections.count } }

  var isStopping: Bool { stopping.load(ordering: .acquiring) }

  private func acceptNext() {
    let accept = AcceptOperation(from: listener)
    accept.whenFinished { result in
      switch result {
      case .success(let stream):
        self.serve(stream)
        self.acceptNext()
      case .failure(is StreamClosed):
        break  // Stopping closed the listener.
      case .failure(let error):
        // It concerns one client, which was gone before it was served.
        FileHandle.standardError.write(Data("echo-server: \(error)\n".utf8))
        self.acceptNext()
      }
    }
    run(accept)
  }

  private func serve(_ stream: TCPStream) {
    let connection = Connection(stream, of: self)
    state.withLock {
      $0.connections[ObjectIdentifier(connection)] = connection
      $0.served += 1
    }
    connection.start()
  }

  func connectionEnded(_ connection: Connection) {
    let isLast = state.withLock {
      $0.connections[ObjectIdentifier(connection)] = nil
      return isStopping && $0.connections.isEmpty
    }
    if isLast { finish() }
  }

  /// Stops accepting and lets busy connections finish until the grace ends. Asked a second time, ends at once.
  private func stop() {
    guard !stopping.exchange(true, ordering: .acquiringAndReleasing) else {
      exit(130)  // As a shell reports a program that Ctrl-C ended.
    }
    let connections = state.withLock { Array($0.connections.values) }
    Task { await listener.close() }
    if connections.isEmpty { return finish() }
    for connection in connections { connection.serverIsStopping() }
    let graceEnd = TimerOperation(after: options.grace, on: .main)
    graceEnd.whenFinished { _ in
      for connection in self.state.withLock({ Array($0.connections.values) }) { connection.abort() }
    }
    graceEnd.start()
  }

  /// The last connection may end while the stop is being asked for: the first call counts.
  private func finish() {
    guard !finished.exchange(true, ordering: .relaxed) else { return }
    let served = state.withLock { $0.served }
    print("served \(served) connections, \(traffic.bytes) bytes")
    EventLoop.main.stop()
  }
}
