import Foundation
import TestSupport
import Testing
import UV

/// A reply in the Redis protocol, version 2.
enum Reply: Equatable {
  case simple(String)
  case error(String)
  case integer(Int)
  case bulk([UInt8])
  case null
  case array([Reply])

  static let ok = Reply.simple("OK")
}

extension Reply: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByArrayLiteral,
  ExpressibleByNilLiteral
{
  init(stringLiteral text: String) { self = .bulk(Array(text.utf8)) }
  init(integerLiteral number: Int) { self = .integer(number) }
  init(arrayLiteral elements: Reply...) { self = .array(elements) }
  init(nilLiteral: ()) { self = .null }

  /// The text of a bulk string.
  var text: String? {
    if case .bulk(let bytes) = self { String(decoding: bytes, as: UTF8.self) } else { nil }
  }
}

/// A client that sends what it is given and takes replies apart. One task at a time.
final class KeyValueClient {
  let stream: TCPStream
  private var received: [UInt8] = []
  private var position = 0

  init(_ stream: TCPStream) { self.stream = stream }

  func call(_ arguments: String...) async throws -> Reply { try await call(arguments) }

  func call(_ arguments: [String]) async throws -> Reply {
    try await call(arguments.map { Array($0.utf8) })
  }

  func call(_ arguments: [[UInt8]]) async throws -> Reply {
    try await stream.write(command(arguments))
    return try await reply()
  }

  func expect(
    _ expected: Reply, from arguments: String..., sourceLocation: SourceLocation = #_sourceLocation
  ) async throws {
    let reply = try await call(arguments)
    #expect(reply == expected, "\(arguments)", sourceLocation: sourceLocation)
  }

  func expect(
    _ expected: Reply, from arguments: [[UInt8]],
    sourceLocation: SourceLocation = #_sourceLocation
  ) async throws {
    let reply = try await call(arguments)
    #expect(reply == expected, sourceLocation: sourceLocation)
  }

  func reply() async throws -> Reply {
    let line = try await readLine()
    let rest = String(line.dropFirst())
    switch line.first {
    case "+": return .simple(rest)
    case "-": return .error(rest)
    case ":": return .integer(try #require(Int(rest)))
    case "$":
      let count = try #require(Int(rest))
      if count < 0 { return .null }
      let bytes = try await read(count)
      try #require(try await read(2) == [13, 10])
      return .bulk(bytes)
    case "*":
      var elements: [Reply] = []
      for _ in 0..<(try #require(Int(rest))) { elements.append(try await reply()) }
      return .array(elements)
    default:
      Issue.record("no reply: \(line)")
      return .null
    }
  }

  private func readLine() async throws -> String {
    var searched = 0
    while true {
      if let newline = received[(position + searched)...].firstIndex(of: 10) {
        defer { position = newline + 1 }
        return String(decoding: received[position..<newline - 1], as: UTF8.self)
      }
      searched = received.count - position
      try await readMore()
    }
  }

  private func read(_ count: Int) async throws -> [UInt8] {
    while received.count - position < count { try await readMore() }
    defer { position += count }
    return Array(received[position..<position + count])
  }

  private func readMore() async throws {
    let more = try #require(try await stream.read(upTo: 1 << 20), "the connection ended")
    if position == received.count {
      received = more
      position = 0
    } else {
      received += more
    }
  }

  /// All that comes up to the end.
  func rest() async throws -> String {
    var bytes = Array(received[position...])
    while let more = try await stream.read() { bytes += more }
    return String(decoding: bytes, as: UTF8.self)
  }
}

/// A command as an array of bulk strings.
func command(_ arguments: [[UInt8]]) -> [UInt8] {
  var bytes = Array("*\(arguments.count)\r\n".utf8)
  for argument in arguments {
    bytes += Array("$\(argument.count)\r\n".utf8) + argument + [13, 10]
  }
  return bytes
}

func command(_ arguments: String...) -> [UInt8] { command(arguments.map { Array($0.utf8) }) }

/// A running server, and the loop of its clients.
struct KeyValuePlace {
  let server: ExampleProcess
  let address: SocketAddress
  let loop: EventLoop

  func connect(options: TCPOptions = TCPOptions()) async throws -> KeyValueClient {
    KeyValueClient(
      try await TCPStream.connect(to: address, options: options, loop: loop))
  }

  func withClient<Value>(_ body: (KeyValueClient) async throws -> Value) async throws -> Value {
    let client = try await connect()
    do {
      let value = try await body(client)
      await client.stream.close()
      return value
    } catch {
      client.stream.abort()
      throw error
    }
  }

  /// Ends the server in order.
  func stop(sourceLocation: SourceLocation = #_sourceLocation) async throws {
    server.send(SIGINT)
    let exit = try await server.waitUntilExit()
    #expect(exit == .init(status: 0), "\(server.lines(.errors))", sourceLocation: sourceLocation)
  }
}

/// Runs `body` with a server, which ends with it.
func withKeyValueServer<Value>(
  _ arguments: [String] = [], shell: String? = nil, _ body: (KeyValuePlace) async throws -> Value
) async throws -> Value {
  let server = try ExampleProcess("kv-server", ["--port", "0"] + arguments, shell: shell)
  defer { server.send(SIGKILL) }
  let address = try await server.waitUntilListening()
  let loop = try EventLoop()
  let result: Result<Value, any Error>
  do {
    result = .success(try await body(.init(server: server, address: address, loop: loop)))
  } catch {
    result = .failure(error)
  }
  await loop.shutdown()
  return try result.get()
}
