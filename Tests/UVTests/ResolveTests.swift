import TestSupport
import Testing
import UV

@Suite(.timeLimit(.minutes(1))) struct ResolveTests {
  @Test(arguments: [true, false])
  func localhostIsThisMachine(onTheLoop: Bool) async throws {
    try await withLoop { loop in
      let addresses = try await Task(executorPreference: onTheLoop ? loop : nil) {
        try await loop.resolve("localhost", port: 7007)
      }.value
      // The system decides whether it has one family or both.
      #expect(!addresses.isEmpty)
      #expect(Set(addresses).count == addresses.count)
      #expect(
        addresses.allSatisfy { ["[::1]:7007"].contains("\($0)") || $0.host.hasPrefix("127.") })
    }
  }

  @Test(arguments: ["127.0.0.1", "::1", "::ffff:192.0.2.1", "fe80::1%lo"])
  func aNumericAddressIsItsOwnAnswer(_ host: String) async throws {
    try await withLoop { loop in
      let addresses = try await loop.resolve(host, port: 65_535)
      let expected = try SocketAddress(host, port: 65_535)
      #expect(addresses == [expected])
    }
  }

  @Test(arguments: [
    "", String(repeating: "a", count: 300), String(repeating: "a.", count: 127) + "a",
    String(repeating: "a", count: 64) + ".example", "local\0host", "localhost\0", "\0",
    String(repeating: "é", count: 32) + ".example",
  ])
  func whatCannotBeAHostNameIsRefused(_ host: String) async throws {
    try await withLoop { loop in
      let error = await #expect(throws: AddressError.self) {
        try await loop.resolve(host, port: 1)
      }
      #expect(error?.reason == .hostName)
    }
  }

  @Test(arguments: [-1, 65_536])
  func aPortOutOfRangeIsRefused(_ port: Int) async throws {
    try await withLoop { loop in
      for host in ["localhost", "127.0.0.1"] {
        let error = await #expect(throws: AddressError.self) {
          try await loop.resolve(host, port: port)
        }
        #expect(error?.reason == .port)
      }
    }
  }

  @Test func anUnknownInterfaceIsRefused() async throws {
    try await withLoop { loop in
      let error = await #expect(throws: AddressError.self) {
        try await loop.resolve("fe80::1%nope", port: 1)
      }
      #expect(error?.reason == .scope)
    }
  }

  // Names that the rules allow and nobody has. The longest grow in their conversion for the name service.
  @Test(arguments: [
    "nosuch.invalid", "-.invalid", "a..invalid", "[::1]", "127.0.0.1:80", "256.256.256.256",
    "ü.invalid", "\u{7f}.invalid", "no such.invalid",
    Array(repeating: String(repeating: "éю", count: 15), count: 4).joined(separator: ".") + ".x",
  ])
  func aNameThatNobodyHasFails(_ host: String) async throws {
    try await withLoop { loop in
      let error = await #expect(throws: IOError.self) { try await loop.resolve(host, port: 1) }
      #expect(error?.operation == "resolve")
      #expect(error?.subject == host)
    }
  }

  @Test func cancellingEndsALookUpAtOnce() async throws {
    try await withLoop { loop in
      for number in 0..<50 {
        let task = Task { try await loop.resolve("host\(number).invalid", port: 1) }
        if number.isMultiple(of: 2) { await Task.yield() }
        task.cancel()
        // A look-up that was quicker has failed by itself.
        let error = await #expect(throws: (any Error).self) { try await task.value }
        #expect(error is CancellationError || error is IOError)
      }
    }
  }

  @Test func aCancelledTaskStartsNoLookUp() async throws {
    try await withLoop { loop in
      let task = Task {
        withUnsafeCurrentTask { $0?.cancel() }
        return try await loop.resolve("nosuch.invalid", port: 1)
      }
      await #expect(throws: CancellationError.self) { try await task.value }
    }
  }

  @Test func manyLookUpsAllEnd() async throws {
    try await withLoop { loop in
      let found = try await withThrowingTaskGroup(of: Int.self) { group in
        for _ in 0..<200 { group.addTask { try await loop.resolve("localhost", port: 1).count } }
        return try await group.reduce(into: []) { $0.append($1) }
      }
      #expect(found.count == 200)
      #expect(found.allSatisfy { $0 > 0 })
      #expect(loop.statistics.requests == 0)
    }
  }

  // A name server that does not answer takes seconds for each of the four that run: few rounds, many look-ups.
  @Test(arguments: 1...3) func shuttingDownEndsLookUpsThatWaitAndThatRun(round: Int) async throws {
    let loop = try EventLoop()
    let tasks = (0..<100).map { number in
      Task { try await loop.resolve("host\(number).invalid", port: 1) }
    }
    await eventually("a look-up is under way") { loop.statistics.requests > 0 }
    await loop.shutdown()
    for task in tasks {
      let error = await #expect(throws: (any Error).self) { try await task.value }
      #expect(error is EventLoopClosed || error is IOError)
    }
    #expect(loop.statistics.requests == 0)
  }
}
