import Foundation
import TestSupport
import Testing
import UV

/// What the commands of `kv-server` answer, which is what Redis 7.0 answers.
@Suite(.timeLimit(.minutes(1)))
struct KeyValueServerTests {
  private static let notAnInteger = Reply.error("ERR value is not an integer or out of range")
  private static let overflow = Reply.error("ERR increment or decrement would overflow")
  private static let syntax = Reply.error("ERR syntax error")

  /// One conversation for each subject, from an empty store on; words are apart by blanks.
  private static let conversations: [[(String, Reply)]] = [
    [
      ("PING", .simple("PONG")), ("ping hello", "hello"), ("ECHO hello", "hello"),
      ("PING a b", .error("ERR wrong number of arguments for 'ping' command")),
    ],
    [
      ("GET a", nil), ("SET a 1", .ok), ("GET a", "1"), ("set a 22", .ok), ("STRLEN a", 2),
      ("STRLEN none", 0), ("APPEND a 333", 5), ("GET a", "22333"), ("APPEND b x", 1),
      ("GET b", "x"),
    ],
    [
      ("SET a 1 NX", .ok), ("SET a 2 nx", nil), ("GET a", "1"), ("SET a 3 XX", .ok),
      ("SET b 4 XX", nil), ("EXISTS b", 0), ("GET a", "3"), ("SET a 5 NX XX", syntax),
      ("SET a 5 EX", syntax), ("SET a 5 EX 1 PX 1", syntax), ("SET a 5 EX 1 KEEPTTL", syntax),
      ("SET a 5 ANY", syntax), ("SET a 5 EX x", notAnInteger),
      ("SET a 5 EX 0", .error("ERR invalid expire time in 'set' command")),
      ("SET a 5 PX -1", .error("ERR invalid expire time in 'set' command")),
      ("SET a 5 EX 9223372036854775807", .error("ERR invalid expire time in 'set' command")),
      ("SET b 5 EX 100 XX", nil), ("SET b 5 XX EX x", notAnInteger), ("GET a", "3"),
    ],
    [
      ("MSET a 1 b 2 a 3", .ok), ("MGET a b c a", ["3", "2", nil, "3"]),
      ("MSET a 1 b", .error("ERR wrong number of arguments for 'mset' command")),
      ("EXISTS a b c a", 3), ("DEL a c a", 1), ("DEL a", 0), ("EXISTS a", 0), ("DBSIZE", 1),
      ("FLUSHALL", .ok), ("DBSIZE", 0), ("GET b", nil), ("FLUSHALL ASYNC", .ok),
      ("FLUSHALL NOW", syntax),
    ],
    [
      ("INCR n", 1), ("INCR n", 2), ("INCRBY n 40", 42), ("DECR n", 41), ("DECRBY n 50", -9),
      ("INCRBY n -1", -10), ("GET n", "-10"), ("INCRBY n x", notAnInteger),
      ("INCRBY n 1.5", notAnInteger), ("INCRBY n +1", notAnInteger),
      ("INCRBY n 9223372036854775808", notAnInteger), ("SET n 9223372036854775807", .ok),
      ("INCR n", overflow), ("INCRBY n 1", overflow), ("DECRBY n -1", overflow),
      ("GET n", "9223372036854775807"), ("SET n -9223372036854775808", .ok), ("DECR n", overflow),
      ("INCRBY n -1", overflow),
      ("DECRBY n -9223372036854775808", .error("ERR decrement would overflow")),
      ("SET n 007", .ok), ("INCR n", notAnInteger), ("SET n 1e3", .ok), ("INCR n", notAnInteger),
    ],
    [
      ("TTL a", -2), ("PTTL a", -2), ("EXPIRE a 10", 0), ("PERSIST a", 0), ("SET a 1", .ok),
      ("TTL a", -1), ("PTTL a", -1), ("PERSIST a", 0), ("EXPIRE a 100", 1), ("TTL a", 100),
      ("INCR a", 2), ("APPEND a 0", 2), ("TTL a", 100), ("PERSIST a", 1), ("TTL a", -1),
      ("PEXPIRE a 200000", 1), ("TTL a", 200), ("SET a 1 KEEPTTL", .ok), ("TTL a", 200),
      ("SET a 1", .ok), ("TTL a", -1), ("SET a 1 PX 50000", .ok), ("TTL a", 50),
      ("SET a 1 EXAT 33000000000", .ok), ("PEXPIREAT a 33000000000000", 1),
      ("EXPIRE a x", notAnInteger),
      (
        "EXPIRE a 9223372036854775807",
        .error("ERR invalid expire time in 'expire' command")
      ),
      ("EXPIRE a -1", 1), ("GET a", nil), ("SET a 1", .ok), ("PEXPIREAT a \(Int.min)", 1),
      ("TTL a", -2), ("SET a 1", .ok), ("PEXPIRE a \(Int.min)", 1), ("DBSIZE", 0), ("SET a 1", .ok),
      ("PEXPIREAT a 1", 1), ("DBSIZE", 0),
    ],
    [
      ("MSET one 1 two 2 three 3 [x] 4", .ok), ("KEYS one", ["one"]), ("KEYS x*", []),
      ("KEYS o?e", ["one"]), ("KEYS *r*e", ["three"]), ("KEYS [^a-s[]wo", ["two"]),
      ("KEYS \\[x]", ["[x]"]), ("KEYS t[h-w]o", ["two"]), ("KEYS ****e*e*", ["three"]),
    ],
    [
      ("FOO", .error("ERR unknown command 'FOO', with args beginning with: ")),
      ("foo a b", .error("ERR unknown command 'foo', with args beginning with: 'a' 'b' ")),
      ("CONFIG", .error("ERR wrong number of arguments for 'config' command")),
      ("CONFIG GET", .error("ERR wrong number of arguments for 'config|get' command")),
      ("CONFIG SET a b", .error("ERR unknown subcommand 'SET'. Try CONFIG HELP.")),
      ("CONFIG GET save", ["save", ""]), ("CONFIG GET APPENDONL?", []),
      ("CONFIG GET appendonl? maxmem*", ["maxmemory", "0", "appendonly", "no"]),
      ("COMMAND COUNT", 28), ("COMMAND DOCS", []),
      ("CLIENT GETNAME", nil), ("CLIENT SETNAME me", .ok), ("CLIENT GETNAME", "me"),
      ("CLIENT SETINFO LIB-NAME x", .ok),
      ("CLIENT ID x", .error("ERR wrong number of arguments for 'client|id' command")),
    ],
  ]

  @Test(arguments: conversations.indices)
  func commandsAnswerAsRedisDoes(number: Int) async throws {
    try await withKeyValueServer { place in
      try await place.withClient { client in
        for (line, expected) in Self.conversations[number] {
          let reply = try await client.call(line.split(separator: " ").map(String.init))
          #expect(reply == expected, "\(line)")
        }
      }
    }
  }

  /// Names and arities come from `COMMAND`, so that no command is left out.
  @Test func everyCommandRefusesTooFewAndTooManyArguments() async throws {
    try await withKeyValueServer { place in
      try await place.withClient { client in
        guard case .array(let commands) = try await client.call("COMMAND") else {
          Issue.record("COMMAND is no array")
          return
        }
        #expect(commands.count == 28)
        for case .array(let fields) in commands {
          guard let name = fields.first?.text, case .integer(let arity) = fields[1] else {
            Issue.record("no command: \(fields)")
            continue
          }
          let refusal = Reply.error("ERR wrong number of arguments for '\(name)' command")
          let words = [name] + Array(repeating: "1", count: abs(arity) + 1)
          if abs(arity) > 1 {
            #expect(try await client.call(Array(words.prefix(abs(arity) - 1))) == refusal)
          }
          if arity > 0 { #expect(try await client.call(words) == refusal) }
        }
      }
    }
  }

  // MARK: Bytes

  @Test func keysAndValuesMayBeAnyBytes() async throws {
    try await withKeyValueServer { place in
      try await place.withClient { client in
        let all = (0...255).map { UInt8($0) }
        for (key, value) in [(all, all), ([], []), ([0], [13, 10]), ([13, 10], [0])] {
          try await client.expect(.ok, from: [Array("SET".utf8), key, value])
          try await client.expect(.bulk(value), from: [Array("GET".utf8), key])
        }
        try await client.expect(4, from: "DBSIZE")
        try await client.expect(nil, from: "GET", "\0x")
      }
    }
  }

  @Test(arguments: [16_383, 16_384, 65_536, 1_000_003, 20 << 20])
  func aLargeValueComesBack(count: Int) async throws {
    try await withKeyValueServer { place in
      try await place.withClient { client in
        let value = Pattern.bytes(count)
        #expect(try await client.call([Array("SET".utf8), [1], value]) == .ok)
        let reply = try await client.call([Array("GET".utf8), [1]])
        #expect(reply == .bulk(value))
        try await client.expect(.simple("PONG"), from: "PING")
      }
    }
  }

  // MARK: Expiring

  @Test func aKeyIsThereUntilItsTimeAndThenGone() async throws {
    try await withKeyValueServer { place in
      try await place.withClient { client in
        let start = ContinuousClock.now
        try await client.expect(.ok, from: "SET", "a", "1", "PX", "150")
        try await client.expect(.ok, from: "SET", "b", "2")
        while try await client.call("GET", "a") == "1" {}
        // The system's clock counts whole milliseconds here.
        #expect(ContinuousClock.now - start >= .milliseconds(149))
        try await client.expect(1, from: "EXISTS", "a", "b")
        try await client.expect(["b"], from: "KEYS", "*")
        try await client.expect(1, from: "INCR", "a")
        try await client.expect(-1, from: "TTL", "a")
      }
    }
  }

  @Test func aNewDeadlineReplacesTheOldOne() async throws {
    try await withKeyValueServer { place in
      try await place.withClient { client in
        // Far more than the heap keeps of those that do not count any more.
        for deadline in 0..<3_000 {
          try await client.stream.write(command("SET", "a", "1", "PX", "\(1 + deadline % 50)"))
          try await client.stream.write(command("SET", "b", "1", "PX", "\(1 + deadline % 50)"))
          for _ in 0..<2 { #expect(try await client.reply() == .ok) }
        }
        try await client.expect(.ok, from: "SET", "a", "1", "EX", "100")
        try await client.expect(.ok, from: "SET", "b", "1")
        for key in 0..<2_000 {
          try await client.expect(.ok, from: "SET", "c\(key)", "1", "PX", "\(1 + key % 100)")
        }
        while try await client.call("DBSIZE") != 2 {}
        try await client.expect(["1", "1"], from: "MGET", "a", "b")
        #expect(try await client.call("TTL", "a") != -1)
      }
    }
  }

  // MARK: Connections

  @Test func connectionsShareKeysButNotNames() async throws {
    try await withKeyValueServer { place in
      try await place.withClient { first in
        try await place.withClient { second in
          try await first.expect(.ok, from: "CLIENT", "SETNAME", "first")
          try await second.expect(nil, from: "CLIENT", "GETNAME")
          try await first.expect(.ok, from: "SET", "a", "1")
          try await second.expect("1", from: "GET", "a")
          let ids = [
            try await first.call("CLIENT", "ID"), try await second.call("CLIENT", "ID"),
          ]
          #expect(ids[0] != ids[1])
          let info = try await first.call("INFO", "clients", "keyspace").text
          #expect(info?.contains("connected_clients:2\r\n") == true)
          #expect(info?.contains("db0:keys=1,expires=0") == true)
          #expect(info?.contains("tcp_port") == false)
        }
      }
    }
  }

  @Test func quitAnswersAndClosesAndNothingMoreIsDone() async throws {
    try await withKeyValueServer { place in
      try await place.withClient { client in
        try await client.stream.write(command("SET", "a", "1") + command("QUIT"))
        try await client.stream.write("SET a 2\r\n")
        #expect(try await client.rest() == "+OK\r\n+OK\r\n")
      }
      #expect(try await place.withClient { try await $0.call("GET", "a") } == "1")
    }
  }
}
