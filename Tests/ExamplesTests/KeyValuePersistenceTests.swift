import Foundation
import TestSupport
import Testing
import UV

/// What `kv-server` knows again after it has ended, in whatever way.
@Suite(.timeLimit(.minutes(1)))
struct KeyValuePersistenceTests {
  private func withFile(_ body: (String) async throws -> Void) async throws {
    let path = FileManager.default.temporaryDirectory.appendingPathComponent("kv-\(UUID())").path
    defer { try? FileManager.default.removeItem(atPath: path) }
    try await body(path)
  }

  private func options(_ path: String, _ policy: String = "everysec") -> [String] {
    ["--appendonly", path, "--appendfsync", policy]
  }

  /// Runs a server with the file to its end in order, and returns what it says on standard error.
  @discardableResult
  private func run(
    _ arguments: [String], _ body: (KeyValueClient) async throws -> Void
  ) async throws -> [String] {
    try await withKeyValueServer(arguments) { place in
      try await place.withClient(body)
      try await place.stop()
      return place.server.lines(.errors)
    }
  }

  private func read(_ path: String) throws -> [UInt8] {
    [UInt8](try Data(contentsOf: URL(fileURLWithPath: path)))
  }

  private func write(_ bytes: some Sequence<UInt8>, to path: String) throws {
    try Data(bytes).write(to: URL(fileURLWithPath: path))
  }

  // MARK: In order

  @Test(arguments: ["always", "everysec", "no"])
  func everyKindOfChangeIsThereAgain(policy: String) async throws {
    try await withFile { path in
      let changes = [
        "SET a 1", "SET b 2 EX 1000", "SET c 3 NX", "SET c 4 NX", "SET gone 1", "DEL gone",
        "INCR n", "INCRBY n 41", "DECR m", "APPEND a 23", "MSET x 1 y 2", "EXPIRE x 1000",
        "PEXPIRE y 1000000", "PERSIST y", "SET b 5 KEEPTTL", "SET z 1", "EXPIRE z -1",
      ]
      try await run(options(path, policy)) { client in
        for change in changes {
          _ = try await client.call(change.split(separator: " ").map(String.init))
        }
        _ = try await client.call([Array("SET".utf8), [0, 13, 10], [255, 0]])
      }
      // Twice: loading changes nothing.
      for _ in 0..<2 {
        let errors = try await run(options(path, policy)) { client in
          try await client.expect(
            ["123", "5", "3", nil, "42", "-1", "1", "2", nil], from: "MGET", "a", "b", "c", "gone",
            "n", "m", "x", "y", "z")
          #expect(try await client.call([Array("GET".utf8), [0, 13, 10]]) == .bulk([255, 0]))
          try await client.expect(8, from: "DBSIZE")
          for (key, least) in [("a", -1), ("b", 900), ("x", 900), ("y", -1)] {
            guard case .integer(let left) = try await client.call("TTL", key) else { continue }
            #expect(least < 0 ? left == least : (least...1_000).contains(left), "\(key)")
          }
        }
        #expect(errors == [])
      }
      try await run(options(path, policy)) { _ = try await $0.call("FLUSHALL") }
      try await run(options(path, policy)) { try await $0.expect(0, from: "DBSIZE") }
    }
  }

  @Test func theFileHasTheTimeAtWhichAKeyExpires() async throws {
    try await withFile { path in
      let start = Int(Date().timeIntervalSince1970 * 1_000)
      try await run(options(path)) { client in
        try await client.expect(.ok, from: "SET", "a", "1", "EX", "100")
        try await client.expect(.ok, from: "SET", "b", "1")
        try await client.expect(1, from: "EXPIRE", "b", "100")
      }
      let words = String(decoding: try read(path), as: UTF8.self).split(separator: "\r\n")
      for name in ["PXAT", "PEXPIREAT"] {
        let place = try #require(words.firstIndex { $0 == name })
        // After a time, its length and then itself, or the key before it.
        let time = try #require(words[(place + 1)...].lazy.compactMap { Int($0) }.first)
        #expect((start + 99_999...start + 160_000).contains(time), "\(name) \(time)")
      }
    }
  }

  @Test func aKeyThatExpiresIsDeletedInTheFileWithoutBeingAskedFor() async throws {
    try await withFile { path in
      try await withKeyValueServer(options(path)) { place in
        try await place.withClient { client in
          try await client.expect(.ok, from: "SET", "a", "1", "PX", "50")
          await eventually("the file says so") {
            (try? self.read(path))?.suffix(20) == command("DEL", "a").suffix(20)
          }
        }
        try await place.stop()
      }
      try await run(options(path)) { try await $0.expect(0, from: "DBSIZE") }
    }
  }

  @Test func aKeyThatExpiredMeanwhileIsGone() async throws {
    try await withFile { path in
      // As a server leaves it that was killed before the key's time.
      try write(
        command("SET", "a", "1", "PXAT", "1700000000000") + command("INCR", "a")
          + command("SET", "b", "1", "PXAT", "33000000000000") + command("INCR", "b"), to: path)
      try await run(options(path)) { client in
        try await client.expect([nil, "2"], from: "MGET", "a", "b")
        try await client.expect(1, from: "DBSIZE")
      }
      #expect(try read(path).suffix(20) == command("DEL", "a").suffix(20))
    }
  }

  @Test func aFileOfATimeWithAnotherLimitIsLoaded() async throws {
    try await withFile { path in
      let limited = options(path) + ["--proto-max-bulk-len", "8"]
      try await run(limited) { client in
        try await client.expect(.ok, from: "SET", "a", "12345678", "EX", "1000")
        try await client.expect(1, from: "EXPIRE", "a", "2000")
      }
      try await run(limited) { try await $0.expect("12345678", from: "GET", "a") }
      try await run(options(path)) { try await $0.expect(9, from: "APPEND", "a", "9") }
      try await run(limited) { try await $0.expect("123456789", from: "GET", "a") }
    }
  }

  /// `PEXPIREAT` takes any number, and the key may be the next to expire.
  @Test func aFileWithADeadlineOfAnySizeIsLoaded() async throws {
    try await withFile { path in
      try write(
        command("SET", "a", "1") + command("PEXPIREAT", "a", "\(Int.min)")
          + command("SET", "b", "1") + command("PEXPIREAT", "b", "\(Int.max)"), to: path)
      try await run(options(path)) { client in
        try await client.expect([nil, "1"], from: "MGET", "a", "b")
      }
    }
  }

  // MARK: Torn and foreign files

  @Test(arguments: [1, 2, 3, 5, 9, 14, 20, 26, 27, 28])
  func aCommandThatIsNotCompleteIsCutOffAndReported(count: Int) async throws {
    try await withFile { path in
      let whole = command("SET", "a", "1") + command("SET", "b", "2")
      let last = command("SET", "c", "333")
      #expect(last.count == 29)
      try write(whole + last.prefix(count), to: path)
      let errors = try await run(options(path, "always")) { client in
        try await client.expect(["1", "2", nil], from: "MGET", "a", "b", "c")
        #expect(try self.read(path) == whole)
        try await client.expect(.ok, from: "SET", "c", "4")
      }
      #expect(
        errors == [
          "kv-server: \(path): the last command is not complete; its \(count) bytes were cut off"
        ])
      #expect(try read(path) == whole + command("SET", "c", "4"))
      let again = try await run(options(path)) { try await $0.expect("4", from: "GET", "c") }
      #expect(again == [])
    }
  }

  @Test(arguments: [
    ("hello, world\n", 0), ("hello", 0), ("\0\0\0\0", 0),
    ("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1xx", 0),
    ("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n*1\r\n$3\r\nFOO\r\n", 27),
    ("*2\r\n$3\r\nSET\r\n$1\r\na\r\n", 0),
  ])
  func aFileThatIsSomethingElseIsLeftAlone(content: String, offset: Int) async throws {
    try await withFile { path in
      try write(content.utf8, to: path)
      let server = try ExampleProcess("kv-server", ["--port", "0"] + options(path))
      defer { server.send(SIGKILL) }
      #expect(try await server.waitUntilExit() == .init(status: 1))
      #expect(server.lines() == [] && server.lines(.errors).count == 1)
      let expected = "kv-server: \(path): no command at byte \(offset): "
      #expect(server.lines(.errors).first?.hasPrefix(expected) == true)
      #expect(try read(path) == Array(content.utf8))
    }
  }

  // MARK: Killed

  @Test(arguments: 1...5)
  func killedTheServerHasEveryChangeThatItAnswered(round: Int) async throws {
    try await withFile { path in
      let answered = try await withKeyValueServer(options(path, "always")) { place in
        try await withThrowingTaskGroup(of: (client: Int, count: Int).self) { group in
          for number in 0..<4 {
            group.addTask { (number, try await self.setUntilTheEnd(place, number)) }
          }
          // All are in the middle of it then.
          try await place.withClient { client in
            while case .integer(let count) = try await client.call("DBSIZE"), count < 200 * round {}
          }
          place.server.send(SIGKILL)
          return try await group.reduce(into: []) { $0.append($1) }
        }
      }
      #expect(answered.reduce(0) { $0 + $1.count } > 0)
      try await run(options(path)) { client in
        for (number, count) in answered {
          for key in 0..<count { try await client.expect(1, from: "EXISTS", "k\(number)-\(key)") }
        }
      }
    }
  }

  /// Sets keys, sixteen of them without an answer at a time, until the server is gone. Returns how many were answered.
  private func setUntilTheEnd(_ place: KeyValuePlace, _ number: Int) async throws -> Int {
    let stream = try await place.connect().stream
    defer { stream.abort() }
    let answer = 5  // Bytes: +OK and the end of the line.
    var received = 0
    do {
      for key in 0... {
        try await stream.write(command("SET", "k\(number)-\(key)", "x"))
        while received / answer + 16 <= key, let bytes = try await stream.read() {
          received += bytes.count
        }
        if received / answer + 16 <= key { break }
      }
    } catch is IOError {}
    return received / answer
  }

  @Test func aFileThatCannotBeWrittenEndsTheServerAndNothingAnsweredIsLost() async throws {
    try await withFile { path in
      let answered = try await withKeyValueServer(
        options(path, "always"), shell: "trap '' XFSZ; exec \"$0\" \"$@\""
      ) { place in
        // Only now: a sanitizer needs larger files when it begins.
        let limit = "prlimit --pid \(place.server.processID) --fsize=4096"
        let limiting = try ExampleProcess("kv-server", [], shell: limit)
        try #require(try await limiting.waitUntilExit() == .init(status: 0))
        let answered = try await self.setUntilTheEnd(place, 0)
        #expect(try await place.server.waitUntilExit() == .init(status: 1))
        #expect(place.server.lines(.errors).count == 1)
        #expect(place.server.lines(.errors).first?.contains("\(path): file too large") == true)
        return answered
      }
      #expect(answered > 50)
      try await run(options(path)) { client in
        for key in 0..<answered { try await client.expect(1, from: "EXISTS", "k0-\(key)") }
      }
    }
  }
}
