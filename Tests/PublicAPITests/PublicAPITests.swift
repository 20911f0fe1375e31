import Testing
import UV
import UVOperations

/// What a program sees that depends on this package and knows neither C nor the package's inside.
@Suite(.timeLimit(.minutes(1))) struct PublicAPITests {
  @Test func anEchoServerAndItsClient() async throws {
    let loop = try EventLoop()
    let echoed = try await TCPListener.withListener(on: .loopback(port: 0), loop: loop) {
      listener in
      let server = Task(executorPreference: loop) {
        let stream = try await listener.accept()
        for try await bytes in stream { try await stream.write(bytes) }
        await stream.close()
      }
      let echoed = try await TCPStream.withConnection(
        to: "localhost", port: listener.localAddress.port, loop: loop
      ) { stream in
        try await stream.write("Hello, ")
        try await stream.write("world")
        try await stream.shutdownSending()
        return try await stream.reduce(into: []) { $0 += $1 }
      }
      try await server.value
      return echoed
    }
    #expect(String(decoding: echoed, as: UTF8.self) == "Hello, world")
    await loop.shutdown()
  }

  @Test func aLoopRunsClosuresTimersTasksAndActors() async throws {
    let loop = try EventLoop()
    let answer = try await loop.run { 6 * 7 }
    #expect(answer == 42)

    let (ticks, continuation) = AsyncStream.makeStream(of: Int.self)
    let once = try loop.schedule(after: .milliseconds(1)) { continuation.yield(1) }
    let repeating = try loop.schedule(every: .milliseconds(1), after: .zero) { timer in
      continuation.yield(2)
      timer.cancel()
    }
    try loop.execute { continuation.yield(3) }
    let seen = await ticks.prefix(3).reduce(into: Set()) { $0.insert($1) }
    #expect(seen == [1, 2, 3])
    once.reschedule(after: .seconds(60))
    once.cancel()
    repeating.cancel()

    let isOnLoop = await Task(executorPreference: loop) { loop.isCurrent }.value
    #expect(isOnLoop)
    #expect(await Greeter(loop: loop).greet() == "hello from the loop")
    try await loop.sleep(for: .milliseconds(1))

    let statistics: EventLoop.Statistics = loop.statistics
    #expect(statistics.jobsRun > 0 && statistics.iterations > 0)
    await loop.shutdown(gracePeriod: .seconds(1))
    #expect(throws: EventLoopClosed.self) { try loop.execute {} }
  }

  @Test func errorsCanBeToldApart() async throws {
    let free = try await TCPListener.withListener(on: .loopback(port: 0)) { $0.localAddress }
    do {
      _ = try await TCPStream.connect(to: free)
      Issue.record("Somebody listens on \(free)")
    } catch let error as IOError where error.code == .connectionRefused {
      #expect("\(error)" == "connect \(free): connection refused (ECONNREFUSED)")
    }
    do {
      _ = try await EventLoop.shared.resolve("", port: 1)
      Issue.record("The empty name was resolved")
    } catch let error as AddressError {
      #expect(error.reason == .hostName)
    }
  }

  @Test func addressesAreValues() async throws {
    let address = try SocketAddress("[::1]:80")
    #expect(address.family == .ipv6 && address.port == 80 && address.scopeID == 0)
    #expect(try await EventLoop.shared.resolve("::1", port: 80) == [address])
  }

  @Test func signalsAreASequence() async throws {
    let loop = try EventLoop()
    let signals: AsyncStream<Signal> = try loop.signals(.hangUp)
    await loop.shutdown()
    #expect(await signals.first { _ in true } == nil)
  }

  @Test func operationsNeedNothingElse() {
    #expect("\(AsynchronousOperation.self)" == "AsynchronousOperation")
  }
}

private actor Greeter {
  nonisolated let loop: EventLoop

  init(loop: EventLoop) { self.loop = loop }

  nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

  func greet() -> String { loop.isCurrent ? "hello from the loop" : "hello from elsewhere" }
}
