import Foundation
import TestSupport
import Testing
import UV

/// How the server ends, and what it says then.
@Suite(.timeLimit(.minutes(1)))
struct EchoServerEndTests {
  @Test(arguments: ways, [SIGINT, SIGTERM])
  func aSignalEndsTheServerWithItsFigures(way: String, signal: CInt) async throws {
    try await withEchoServer(options(way)) { server, address, loop in
      for count in [10, 200, 3_000] {
        let stream = try await TCPStream.connect(to: address, loop: loop)
        #expect(try await stream.echo([UInt8](repeating: 5, count: count)).count == count)
        await stream.close()
      }
      server.send(signal)
      #expect(try await server.waitUntilExit() == .init(status: 0))
      #expect(server.lines().last == "served 3 connections, 3210 bytes")
      #expect(server.lines(.errors) == [])
    }
  }

  @Test(arguments: ways)
  func aSignalRightAfterTheFirstLineEndsTheServerInOrder(way: String) async throws {
    for _ in 0..<3 {
      try await withEchoServer(options(way)) { server, _, _ in
        server.send(SIGTERM)
        let exit = try await server.waitUntilExit()
        #expect(exit == .init(status: 0))
      }
    }
  }

  @Test(arguments: ways)
  func aSignalClosesIdleClients(way: String) async throws {
    try await withEchoServer(options(way) + ["--grace", "3600"]) { server, address, loop in
      let stream = try await TCPStream.connect(to: address, loop: loop)
      #expect(try await stream.echo([1]) == [1])
      server.send(SIGINT)
      #expect(try await stream.read() == nil)
      await stream.close()
      #expect(try await server.waitUntilExit() == .init(status: 0))
      #expect(server.lines().last == "served 1 connections, 1 bytes")
    }
  }

  @Test(arguments: ways)
  func aBusyClientIsServedToTheEnd(way: String) async throws {
    try await withEchoServer(options(way) + ["--grace", "3600"]) { server, address, loop in
      try await withStuckClient(address, loop) { stream, count in
        server.send(SIGINT)
        try await waitUntilRefused(address, loop)
        var received = 0
        while received < count, let part = try await stream.read() { received += part.count }
        #expect(received == count)
        await stream.close()
        let exit = try await server.waitUntilExit()
        #expect(exit == .init(status: 0))
        // Those that looked whether it still listens count as served.
        #expect(server.lines().last?.hasSuffix(" connections, \(count) bytes") == true)
      }
    }
  }

  @Test(arguments: ways)
  func theSecondInterruptEndsTheServerAtOnce(way: String) async throws {
    try await withEchoServer(options(way) + ["--grace", "3600"]) { server, address, loop in
      try await withStuckClient(address, loop) { stream, _ in
        server.send(SIGINT)
        try await waitUntilRefused(address, loop)
        #expect(server.exit == nil)
        server.send(SIGINT)
        let exit = try await server.waitUntilExit()
        #expect(exit == .init(status: 130))
        stream.abort()
      }
    }
  }

  @Test(arguments: ways)
  func theEndOfTheGraceAbortsAStuckClient(way: String) async throws {
    try await withEchoServer(options(way) + ["--grace", "0.2"]) { server, address, loop in
      try await withStuckClient(address, loop) { stream, _ in
        server.send(SIGINT)
        let exit = try await server.waitUntilExit()
        #expect(exit == .init(status: 0))
        #expect(server.lines().last?.hasPrefix("served 1 connections, ") == true)
        stream.abort()
      }
    }
  }

  /// A client that has sent more than it has read, so that the server waits for it.
  private func withStuckClient(
    _ address: SocketAddress, _ loop: EventLoop,
    _ body: (_ stream: TCPStream, _ count: Int) async throws -> Void
  ) async throws {
    let stream = try await TCPStream.connect(to: address, loop: loop)
    let count = 32 << 20
    let write = Task { try await stream.write([UInt8](repeating: 1, count: count)) }
    // When the system takes no more for a while, the server is stuck in its write.
    var last = 0
    var unchanged = 0
    await eventually {
      let queued = stream.bytesQueued
      unchanged = queued == last && queued > 0 ? unchanged + 1 : 0
      last = queued
      return unchanged == 50
    }
    try await body(stream, count)
    _ = await write.result
  }

  private func waitUntilRefused(_ address: SocketAddress, _ loop: EventLoop) async throws {
    while let stream = try? await TCPStream.connect(to: address, loop: loop) { stream.abort() }
  }

  // MARK: The command line

  private func run(_ arguments: [String]) async throws -> ExampleProcess {
    let server = try ExampleProcess("echo-server", arguments)
    defer { server.send(SIGKILL) }
    _ = try await server.waitUntilExit()
    return server
  }

  @Test func helpListsTheOptions() async throws {
    let server = try await run(["--help"])
    #expect(server.exit == .init(status: 0))
    #expect(server.lines().first == "usage: echo-server [options]")
    let options = [
      "--host", "--port", "--mode", "--queue", "--loops", "--max-connections", "--idle-timeout",
      "--grace",
    ]
    for option in options {
      #expect(server.lines().contains { $0.contains(option) }, "\(option)")
    }
  }

  @Test(arguments: [
    ["--nonsense"], ["nonsense"], [""], ["--port"], ["--port", "65536"], ["--port", "-1"],
    ["--port=x"], ["--queue", "none"], ["--mode", "none"],
    ["--mode", "async", "--queue", "loop"], ["--loops", "2"], ["--mode", "async", "--loops", "0"],
    ["--max-connections", "0"],
    ["--idle-timeout", "0"], ["--grace", "-1"], ["--grace", "nan"], ["--stats=yes"],
  ])
  func badOptionsAreAUsageError(arguments: [String]) async throws {
    let server = try await run(arguments)
    #expect(server.exit == .init(status: 64))
    #expect(server.lines().isEmpty && server.lines(.errors).count == 1)
    #expect(server.lines(.errors).first?.hasPrefix("echo-server: ") == true)
  }

  @Test(arguments: ["203.0.113.7", "nobody.invalid", ""])
  func aHostThatIsNotOursIsOneLine(host: String) async throws {
    let server = try await run(["--host", host, "--port", "0"])
    #expect(server.exit == .init(status: 1))
    #expect(server.lines().isEmpty && server.lines(.errors).count == 1)
    #expect(server.lines(.errors).first?.contains(host) == true || host.isEmpty)
  }

  @Test func aPortInUseIsNamed() async throws {
    try await withEchoServer { _, address, _ in
      let server = try await run(["--port", "\(address.port)"])
      #expect(server.exit == .init(status: 1))
      #expect(server.lines().isEmpty && server.lines(.errors).count == 1)
      #expect(server.lines(.errors).first?.contains("\(address)") == true)
    }
  }

  @Test func anIPv6AddressIsPrintedInBrackets() async throws {
    try await withEchoServer(["--host", "::1"]) { server, address, loop in
      #expect(server.lines().first == "listening on [::1]:\(address.port)")
      let stream = try await TCPStream.connect(to: address, loop: loop)
      #expect(try await stream.echo([6]) == [6])
      await stream.close()
    }
  }
}
