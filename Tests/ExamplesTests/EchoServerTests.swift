import Foundation
import TestSupport
import Testing
import UV

/// The ways in which the server runs its operations.
/// The ways in which the server can work: an operation queue, or tasks.
let ways = ["loop", "dispatch", "direct", "async"]

func options(_ way: String) -> [String] {
  way == "async" ? ["--mode", "async"] : ["--queue", way]
}

@Suite(.timeLimit(.minutes(1)))
struct EchoServerTests {
  @Test(arguments: ways, [1, 100, 65_536, 1_000_003, 16 << 20])
  func bytesComeBackExactlyAndThenTheEnd(way: String, count: Int) async throws {
    try await withEchoServer(options(way)) { _, address, loop in
      try await TCPStream.withConnection(
        to: address.host, port: address.port, loop: loop
      ) { stream in
        async let echoed = stream.readPattern()
        try await stream.write(Pattern.bytes(count))
        try await stream.shutdownSending()
        #expect(try await echoed == count)
      }
    }
  }

  private func resetTwenty(_ address: SocketAddress, _ loop: EventLoop) async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<20 {
        group.addTask {
          let stream = try await TCPStream.connect(to: address, loop: loop)
          try await stream.write([UInt8](repeating: 1, count: 10_000))
          stream.abort()
        }
      }
      try await group.waitForAll()
    }
  }

  @Test(arguments: ways)
  func clientsThatResetTakeNothingWithThem(way: String) async throws {
    try await withEchoServer(options(way)) { server, address, loop in
      // The first clients make the server open what it opens once.
      try await resetTwenty(address, loop)
      let first = try await TCPStream.connect(to: address, loop: loop)
      #expect(try await first.echo([1]) == [1])
      let withOne = server.descriptorCount
      await first.close()
      await eventually { server.descriptorCount < withOne }
      let before = server.descriptorCount

      for _ in 0..<50 { try await resetTwenty(address, loop) }
      let last = try await TCPStream.connect(to: address, loop: loop)
      #expect(try await last.echo([2, 3]) == [2, 3])
      await last.close()
      await eventually { server.descriptorCount == before }
    }
  }

  @Test(arguments: ways)
  func aClientThatDoesNotReadIsHeldAndThenGetsEverything(way: String) async throws {
    try await withEchoServer(options(way)) { server, address, loop in
      let stream = try await TCPStream.connect(to: address, loop: loop)
      #expect(try await stream.echo([UInt8](repeating: 1, count: 65_536)).count == 65_536)
      let before = server.memory
      let bytes = Pattern.bytes(64 << 20)
      let isWritten = Guarded(false)
      let write = Task {
        try await stream.write(bytes)
        isWritten.update { $0 = true }
      }
      await eventually { stream.bytesQueued > 0 || isWritten.value }
      // Held: a hundred looks, and nothing has moved.
      var last = stream.bytesQueued
      var unchanged = 0
      await eventually {
        unchanged = stream.bytesQueued == last ? unchanged + 1 : 0
        last = stream.bytesQueued
        return unchanged == 100
      }
      #expect(!isWritten.value && last > 0)
      #expect(server.memory - before < 16 << 20)

      #expect(try await stream.readPattern(bytes.count) == bytes.count)
      try await write.value
      await stream.close()
    }
  }

  @Test(arguments: ways)
  func aClientThatNeitherSendsNorReadsIsSilentToo(way: String) async throws {
    try await withEchoServer(options(way) + ["--idle-timeout", "1"]) { _, address, loop in
      let stream = try await TCPStream.connect(to: address, loop: loop)
      // Stuck until the server gives up, and throws away what still comes or resets the connection.
      _ = try? await stream.write(Pattern.bytes(64 << 20))
      while let part = try? await stream.read(), !part.isEmpty {}
      await stream.close()
    }
  }

  @Test(arguments: ways)
  func withoutDescriptorsClientsWaitForTheirTurn(way: String) async throws {
    try await withEchoServer(options(way), fileLimit: 64) { server, address, loop in
      var clients: [TCPStream] = []
      for number in 0..<200 {
        let client = try await TCPStream.connect(to: address, loop: loop)
        try await client.write([UInt8(number)])
        clients.append(client)
      }
      await eventually { server.lines(.errors).count > 0 }  // The limit is reached.
      try await withThrowingTaskGroup(of: Void.self) { group in
        for (number, client) in clients.enumerated() {
          group.addTask {
            let echo = try await client.read()
            #expect(echo == [UInt8(number)])
            await client.close()
          }
        }
        try await group.waitForAll()
      }
      #expect(server.exit == nil)
    }
  }

  @Test(arguments: ways)
  func clientsBeyondTheMaximumWait(way: String) async throws {
    let arguments = options(way) + ["--max-connections", "2"]
    try await withEchoServer(arguments) { _, address, loop in
      let first = try await TCPStream.connect(to: address, loop: loop)
      let second = try await TCPStream.connect(to: address, loop: loop)
      #expect(try await first.echo([1]) == [1])
      #expect(try await second.echo([2]) == [2])
      let third = try await TCPStream.connect(to: address, loop: loop)
      let isServed = Guarded(false)
      let served = Task {
        defer { isServed.update { $0 = true } }
        return try await third.echo([3])
      }
      for number in 0..<100 {
        #expect(try await first.echo([UInt8(number)]) == [UInt8(number)])
      }
      #expect(!isServed.value)
      await first.close()
      #expect(try await served.value == [3])
      for stream in [second, third] { await stream.close() }
    }
  }

  @Test(arguments: ways)
  func aSilentClientIsClosed(way: String) async throws {
    let arguments = options(way) + ["--idle-timeout", "0.2"]
    try await withEchoServer(arguments) { _, address, loop in
      let start = SuspendingClock.now
      let stream = try await TCPStream.connect(to: address, loop: loop)
      #expect(try await stream.read() == nil)
      #expect(.now - start >= .milliseconds(200))
      await stream.close()
    }
  }

  @Test func eachSecondHasALineOfStatistics() async throws {
    try await withEchoServer(["--stats"]) { server, address, loop in
      let stream = try await TCPStream.connect(to: address, loop: loop)
      #expect(try await stream.echo([1, 2, 3]) == [1, 2, 3])
      await eventually { server.lines().contains { $0.hasPrefix("1 connections, ") } }
      let line = server.lines().last!
      let pattern =
        /1 connections, \d+ messages\/s, \d+ bytes\/s, loop delay \d+ ms/
      #expect(line.wholeMatch(of: pattern) != nil, "\(line)")
      await stream.close()
    }
  }
}
