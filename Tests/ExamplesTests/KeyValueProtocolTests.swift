import Foundation
import TestSupport
import Testing
import UV

/// How `kv-server` takes apart what it gets, in whatever pieces, and what it does with nonsense.
@Suite(.timeLimit(.minutes(1)))
struct KeyValueProtocolTests {
  // MARK: Pieces

  @Test(arguments: [1, 3, 7, 64, 1_000, .max])
  func aThousandCommandsInPiecesAreAnsweredInOrder(limit: Int) async throws {
    var numbers = SeededNumbers(seed: UInt64(truncatingIfNeeded: limit))
    var sent: [UInt8] = []
    var expected: [Reply] = []
    for number in 0..<333 {
      let value = [UInt8](repeating: UInt8(number % 256), count: number % 40)
      // Three of them.
      sent += command([Array("SET".utf8), Array("k\(number % 7)".utf8), value])
      sent += command("GET", "k\(number % 7)") + Array("INCR n\r\n".utf8)
      expected += [.ok, .bulk(value), .integer(number + 1)]
    }
    let pieces = split(sent, upTo: limit, &numbers)
    let replies = expected
    try await withKeyValueServer { place in
      try await place.withClient { client in
        let stream = client.stream
        let written = Task(executorPreference: place.loop) {
          for piece in pieces { try await stream.write(piece) }
        }
        for expected in replies {
          let reply = try await client.reply()
          #expect(reply == expected)
        }
        try await written.value
      }
    }
  }

  /// `bytes` in pieces of 1 to `limit`.
  private func split(
    _ bytes: [UInt8], upTo limit: Int, _ numbers: inout SeededNumbers
  ) -> [ArraySlice<UInt8>] {
    var pieces: [ArraySlice<UInt8>] = []
    var rest = bytes[...]
    while !rest.isEmpty {
      pieces.append(rest.prefix(Int.random(in: 1...limit, using: &numbers)))
      rest = rest.dropFirst(pieces.last!.count)
    }
    return pieces
  }

  @Test func aClientThatDoesNotReadCostsLittleAndGetsEverythingAtLast() async throws {
    try await withKeyValueServer { place in
      let value = Pattern.bytes(1 << 20)
      let client = try await place.connect(options: .smallBuffers)
      try await client.expect(.ok, from: [Array("SET".utf8), Array("a".utf8), value])
      let before = place.server.memory
      let count = 64
      let requests = Array(repeating: command("GET", "a"), count: count)
      try await client.stream.write(contentsOf: requests)
      // Another one is served meanwhile.
      try await place.withClient { other in
        for _ in 0..<1_000 { try await other.expect(.simple("PONG"), from: "PING") }
      }
      #expect(place.server.memory - before < 24 << 20)
      for _ in 0..<count {
        let reply = try await client.reply()
        #expect(reply == .bulk(value))
      }
      await client.stream.close()
    }
  }

  // MARK: Lines

  @Test(arguments: [
    ("PING\r\n", "+PONG\r\n"), ("PING\n", "+PONG\r\n"), ("  ECHO \t x \r\n", "$1\r\nx\r\n"),
    ("\r\n\n  \r\nPING\r\n", "+PONG\r\n"), (#"ECHO "a b""# + "\r\n", "$3\r\na b\r\n"),
    (#"ECHO "\x41\n\\\"\q""# + "\r\n", "$5\r\nA\n\\\"q\r\n"),
    (#"ECHO 'a\'b\n'"# + "\r\n", "$5\r\na'b\\n\r\n"), (#"ECHO """# + "\r\n", "$0\r\n\r\n"),
    (#"ECHO a"b c""# + "\r\n", "$4\r\nab c\r\n"), ("*0\r\n*-1\r\nPING\r\n", "+PONG\r\n"),
  ])
  func aLineIsACommand(line: String, reply: String) async throws {
    try await withKeyValueServer { place in
      try await place.withClient { client in
        // Once in one piece, and once byte by byte.
        try await client.stream.write(line)
        for byte in line.utf8 { try await client.stream.write([byte]) }
        try await client.stream.write("QUIT\r\n")
        #expect(try await client.rest() == reply + reply + "+OK\r\n")
      }
    }
  }

  // MARK: Nonsense

  /// - Parameter template: With `LONG` for more than a line may have, which would fill the test's name.
  @Test(arguments: [
    ("*x\r\n", "invalid multibulk length"), ("*\r\n", "invalid multibulk length"),
    ("*1 \r\n", "invalid multibulk length"), ("*01\r\n", "invalid multibulk length"),
    ("*1048577\r\n", "invalid multibulk length"),
    ("*99999999999999999999\r\n", "invalid multibulk length"),
    ("*1\r\n%4\r\n", "expected '$', got '%'"), ("*1\r\n\r\n", "expected '$', got ' '"),
    ("*2\r\n$4\r\nECHO\r\n:1\r\n", "expected '$', got ':'"),
    ("*1\r\n$-1\r\n", "invalid bulk length"), ("*1\r\n$\r\n", "invalid bulk length"),
    ("*1\r\n$4x\r\n", "invalid bulk length"), ("*1\r\n$536870913\r\n", "invalid bulk length"),
    ("*1\r\n$9223372036854775808\r\n", "invalid bulk length"),
    ("*1\r\n$4\r\nPINGxx", "expected CRLF"), ("*1\r\n$4\r\nPING\rx", "expected CRLF"),
    ("*1\rx", "expected CRLF"), ("*1\r\n$4\rx", "expected CRLF"),
    ("ECHO \"a\r\n", "unbalanced quotes in request"),
    ("ECHO 'a\r\n", "unbalanced quotes in request"),
    ("ECHO \"a\"b\r\n", "unbalanced quotes in request"), ("LONG", "too big inline request"),
    ("LONG\r\n", "too big inline request"), ("*LONG", "too big mbulk count string"),
    ("*1\r\n$LONG", "too big bulk count string"),
  ])
  func nonsenseIsAnsweredWithAnErrorAndTheEnd(template: String, error: String) async throws {
    let long = String(repeating: "1", count: 65_537)
    let nonsense = template.replacingOccurrences(of: "LONG", with: long)
    try await withKeyValueServer { place in
      for pieces in [[nonsense], nonsense.prefix(200).map { "\($0)" } + [nonsense.dropFirst(200)]]
        as [[any StringProtocol]]
      {
        try await place.withClient { client in
          // What came before it is answered first.
          try await client.stream.write("SET a 1\r\n")
          for piece in pieces { try await client.stream.write(Array(piece.utf8)) }
          #expect(try await client.rest() == "+OK\r\n-ERR Protocol error: \(error)\r\n")
        }
      }
      #expect(try await place.withClient { try await $0.call("GET", "a") } == "1")
    }
  }

  @Test func lengthsThatAreOnlyAnnouncedCostNoMemory() async throws {
    try await withKeyValueServer { place in
      try await place.withClient { client in
        try await client.expect(.simple("PONG"), from: "PING")
        let before = place.server.memory
        var others: [TCPStream] = []
        defer { for other in others { other.abort() } }
        for _ in 0..<20 {
          let other = try await place.connect().stream
          others.append(other)
          try await other.write("*1048576\r\n$536870912\r\nx")
          try await client.expect(.simple("PONG"), from: "PING")
        }
        // They have done nothing wrong, and stay.
        let info = try await client.call("INFO", "clients").text
        #expect(info?.contains("connected_clients:21\r\n") == true)
        #expect(place.server.memory - before < 16 << 20)
      }
    }
  }

  @Test func aRequestOfAsManyArgumentsAsThereMayBeIsAnswered() async throws {
    try await withKeyValueServer { place in
      try await place.withClient { client in
        let count = 1_048_576
        var request = Array("*\(count)\r\n$6\r\nEXISTS\r\n".utf8)
        let argument = Array("$0\r\n\r\n".utf8)
        for _ in 1..<count { request += argument }
        try await client.stream.write(request)
        #expect(try await client.reply() == 0)
      }
    }
  }

  @Test func aSmallerLimitIsKept() async throws {
    try await withKeyValueServer(["--proto-max-bulk-len", "1000"]) { place in
      try await place.withClient { client in
        let value = String(repeating: "x", count: 1_000)
        try await client.expect(.ok, from: "SET", "a", value)
        let tooLarge = "ERR string exceeds maximum allowed size (proto-max-bulk-len)"
        try await client.expect(.error(tooLarge), from: "APPEND", "a", "x")
        #expect(try await client.call("GET", "a").text == value)
        try await client.stream.write(command("SET", "a", value + "x"))
        #expect(try await client.rest() == "-ERR Protocol error: invalid bulk length\r\n")
      }
    }
  }

  @Test func aBrowserThatWasMadeToSendCommandsIsLeft() async throws {
    try await withKeyValueServer { place in
      try await place.withClient { client in
        try await client.stream.write("POST / HTTP/1.1\r\nHost: localhost\r\n\r\nSET a 1\r\n")
        #expect(try await client.rest() == "")
      }
      #expect(try await place.withClient { try await $0.call("GET", "a") } == nil)
    }
  }
}
