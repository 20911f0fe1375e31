import Foundation
import Synchronization
import UV

/// The echo server with async/await: a task for each connection, on the loop that its stream lives on.
final class AsyncEchoServer: Sendable {
  private let address: SocketAddress
  private let options: Options
  private let traffic = Traffic()
  private let openConnections = Atomic<Int>(0)
  private let served = Atomic<Int>(0)
  private let stopping = Atomic<Bool>(false)

  init(_ address: SocketAddress, _ options: Options) {
    self.address = address
    self.options = options
  }

  /// Serves until Ctrl-C or SIGTERM, lets busy connections finish until the grace ends, and stops the main loop.
  func run() async throws {
    let loops = try EventLoopGroup(loops: .init(options.loops))
    var listening = TCPListener.Options()
    listening.stream.readTimeout = options.idleTimeout
    // A client that does not read is silent too.
    listening.stream.writeTimeout = options.idleTimeout
    let listener = try TCPListener(on: address, options: listening, loop: loops.next())

    let serving = Task {
      try await listener.serve(
        maxConnections: options.maxConnections, gracePeriod: options.grace, on: loops,
        onError: { _, _ in }  // A client that is gone.
      ) { try await self.echo($0) }
    }
    let interrupt = try await observe(.interrupt, serving)
    let terminate = try await observe(.terminate, serving)
    print("listening on \(listener.localAddress)")
    fflush(nil)
    if options.showsStatistics {
      try Statistics(of: traffic) { self.openConnections.load(ordering: .relaxed) }.start()
    }

    do { try await serving.value } catch is CancellationError {}
    print("served \(served.load(ordering: .relaxed)) connections, \(traffic.bytes) bytes")
    await listener.close()
    await loops.shutdown()
    withExtendedLifetime((interrupt, terminate)) { EventLoop.main.stop() }
  }

  private func echo(_ stream: TCPStream) async throws {
    openConnections.add(1, ordering: .relaxed)
    served.add(1, ordering: .relaxed)
    defer { openConnections.subtract(1, ordering: .relaxed) }
    do {
      for try await bytes in stream {
        try await stream.write(bytes)
        traffic.count(bytes.count)
      }
    } catch let error as IOError where error.code == .timedOut {
      // Silent for too long: returning closes the stream in order.
    }
  }

  private func observe(
    _ signal: Signal, _ serving: Task<Void, any Error>
  ) async throws -> SignalObserver {
    // On the loop's thread, where observing begins at once: whoever reads that the server runs may ask it to stop.
    try await EventLoop.main.run {
      try EventLoop.main.observe(signal) { _ in
        if self.stopping.exchange(true, ordering: .relaxed) {
          exit(130)  // As a shell reports a program that Ctrl-C ended.
        }
        serving.cancel()
      }
    }
  }
}
