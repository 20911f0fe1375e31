import Foundation
import TestSupport
import Testing
import UV

/// How `kv-server` begins and ends, and what real clients make of it.
@Suite(.timeLimit(.minutes(1)))
struct KeyValueEndTests {
  @Test(arguments: [SIGINT, SIGTERM])
  func aSignalEndsTheServerAndClosesIdleClients(signal: CInt) async throws {
    try await withKeyValueServer { place in
      try await place.withClient { client in
        try await client.expect(.simple("PONG"), from: "PING")
        place.server.send(signal)
        #expect(try await client.stream.read() == nil)
      }
      #expect(try await place.server.waitUntilExit() == .init(status: 0))
      #expect(place.server.lines().count == 1 && place.server.lines(.errors) == [])
    }
  }

  @Test func aSignalRightAfterTheFirstLineEndsTheServerInOrder() async throws {
    for _ in 0..<3 { try await withKeyValueServer { try await $0.stop() } }
  }

  @Test func theSecondInterruptEndsTheServerAtOnce() async throws {
    try await withKeyValueServer { place in
      let client = try await place.connect(options: .smallBuffers)
      let value = Pattern.bytes(8 << 20)
      try await client.expect(.ok, from: [Array("SET".utf8), Array("a".utf8), value])
      // More than the system takes while nobody reads it.
      try await client.stream.write(contentsOf: Array(repeating: command("GET", "a"), count: 4))
      #expect(try await client.stream.read(exactly: 1) == [UInt8(ascii: "$")])
      place.server.send(SIGINT)
      while let other = try? await TCPStream.connect(to: place.address, loop: place.loop) {
        other.abort()
      }
      #expect(place.server.exit == nil)
      place.server.send(SIGINT)
      #expect(try await place.server.waitUntilExit() == .init(status: 130))
      client.stream.abort()
    }
  }

  // MARK: The command line

  private func run(_ arguments: [String]) async throws -> ExampleProcess {
    let server = try ExampleProcess("kv-server", arguments)
    defer { server.send(SIGKILL) }
    _ = try await server.waitUntilExit()
    return server
  }

  @Test func helpListsTheOptions() async throws {
    let server = try await run(["--help"])
    #expect(server.exit == .init(status: 0))
    #expect(server.lines().first == "usage: kv-server [options]")
    for option in ["--host", "--port", "--appendonly", "--appendfsync", "--proto-max-bulk-len"] {
      #expect(server.lines().contains { $0.contains(option) }, "\(option)")
    }
  }

  @Test(arguments: [
    ["--nonsense"], ["nonsense"], [""], ["--port"], ["--port", "65536"], ["--port=x"],
    ["--appendonly", ""], ["--appendfsync", "always"],
    ["--appendonly", "x", "--appendfsync", "often"], ["--proto-max-bulk-len", "0"],
    ["--proto-max-bulk-len", "536870913"], ["--help=yes"],
  ])
  func badOptionsAreAUsageError(arguments: [String]) async throws {
    let server = try await run(arguments)
    #expect(server.exit == .init(status: 64))
    #expect(server.lines().isEmpty && server.lines(.errors).count == 1)
    #expect(server.lines(.errors).first?.hasPrefix("kv-server: ") == true)
  }

  @Test(arguments: [
    ["--host", "203.0.113.7"], ["--host", "nobody.invalid"], ["--host", ""],
    ["--appendonly", "/nowhere/at/all"], ["--appendonly", "/"],
  ])
  func whatCannotBeUsedIsOneLine(arguments: [String]) async throws {
    let server = try await run(["--port", "0"] + arguments)
    #expect(server.exit == .init(status: 1))
    #expect(server.lines().isEmpty && server.lines(.errors).count == 1)
    #expect(
      server.lines(.errors).first?.contains("\(arguments[1])") == true || arguments[1].isEmpty)
  }

  @Test func aPortInUseIsNamedBeforeTheFileIsTouched() async throws {
    let path = FileManager.default.temporaryDirectory.appendingPathComponent("kv-\(UUID())").path
    try await withKeyValueServer { place in
      let server = try await run(["--port", "\(place.address.port)", "--appendonly", path])
      #expect(server.exit == .init(status: 1))
      #expect(server.lines().isEmpty && server.lines(.errors).count == 1)
      #expect(server.lines(.errors).first?.contains("\(place.address)") == true)
      #expect(!FileManager.default.fileExists(atPath: path))
    }
  }

  // MARK: Real clients

  /// Runs a shell's line to its end and returns what it has said.
  private func shell(_ line: String) async throws -> [String] {
    let process = try ExampleProcess("kv-server", [], shell: line)
    defer { process.send(SIGKILL) }
    let exit = try await process.waitUntilExit()
    #expect(exit == .init(status: 0), "\(process.lines(.errors))")
    return process.lines()
  }

  @Test(.enabled(if: isInstalled("redis-cli")))
  func redisCliIsAnswered() async throws {
    try await withKeyValueServer { place in
      let cli = "redis-cli -p \(place.address.port)"
      let script = #"SET greeting \"hello world\"\nGET greeting\nINCR n\nMGET greeting none n\n"#
      let end = #"EXPIRE n 100\nTTL n\nKEYS n*\nGET\nDEL greeting n\nDBSIZE\n"#
      #expect(
        try await shell("printf '\(script)\(end)' | \(cli) --no-raw") == [
          "OK", #""hello world""#, "(integer) 1", #"1) "hello world""#, "2) (nil)", #"3) "1""#,
          "(integer) 1", "(integer) 100", #"1) "n""#,
          "(error) ERR wrong number of arguments for 'get' command", "(integer) 2", "(integer) 0",
        ])
      // Protocol as it is, in bulk.
      let lines = "for i in $(seq 1000); do printf 'SET key%d %d\\r\\n' $i $i; done"
      let last = try await shell("(\(lines)) | \(cli) --pipe").last
      #expect(last == "errors: 0, replies: 1000")
      #expect(try await shell("\(cli) dbsize") == ["1000"])
    }
  }

  @Test(.enabled(if: isInstalled("redis-benchmark")), arguments: [1, 16])
  func redisBenchmarkRunsWithoutErrors(pipeline: Int) async throws {
    try await withKeyValueServer { place in
      let output = try await shell(
        "redis-benchmark -p \(place.address.port) -t ping,set,get -n 20000 -P \(pipeline) -q")
      let text = output.joined(separator: "\n")
      for test in ["PING_INLINE", "PING_MBULK", "SET", "GET"] {
        #expect(text.contains("\(test): "), "\(text)")
      }
      #expect(!text.lowercased().contains("error"))
      try await place.withClient { client in
        try await client.expect(1, from: "DBSIZE")
      }
      #expect(place.server.lines(.errors) == [])
    }
  }

  @Test(.enabled(if: isInstalled("redis-check-aof")), arguments: ["always", "everysec", "no"])
  func theFileIsOneThatRedisCanRead(policy: String) async throws {
    let path = FileManager.default.temporaryDirectory.appendingPathComponent("kv-\(UUID())").path
    defer { try? FileManager.default.removeItem(atPath: path) }
    try await withKeyValueServer(["--appendonly", path, "--appendfsync", policy]) { place in
      _ = try await shell(
        "redis-benchmark -p \(place.address.port) -t set,incr,mset -n 2000 -r 100 -P 4 -q")
      try await place.withClient { client in
        try await client.expect(.ok, from: "SET", "a", "1", "EX", "100")
        try await client.expect(1, from: "EXPIRE", "a", "200")
      }
      try await place.stop()
    }
    #expect(try await shell("redis-check-aof \(path)").last == "AOF \(path) is valid")
  }
}

/// Whether the program is in `PATH`.
private func isInstalled(_ program: String) -> Bool {
  (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").contains {
    FileManager.default.isExecutableFile(atPath: "\($0)/\(program)")
  }
}
