import Foundation
import TestSupport
import Testing
import UV

extension ExampleProcess {
  /// The address in its first line.
  func waitUntilListening() async throws -> SocketAddress {
    await eventually { self.exit != nil || !self.lines().isEmpty }
    let line = lines().first ?? "nothing; errors: \(lines(.errors))"
    try #require(line.hasPrefix("listening on "), "the server says \(line)")
    return try SocketAddress(String(line.dropFirst("listening on ".count)))
  }
}

/// Runs `body` with a server and a loop for its clients; the server ends with it.
///
/// - Parameter fileLimit: How many descriptors the server may have.
func withEchoServer(
  _ arguments: [String] = [], fileLimit: Int? = nil,
  _ body: (ExampleProcess, SocketAddress, EventLoop) async throws -> Void
) async throws {
  let shell = fileLimit.map { "ulimit -n \($0); exec \"$0\" \"$@\"" }
  let server = try ExampleProcess("echo-server", ["--port", "0"] + arguments, shell: shell)
  defer { server.send(SIGKILL) }
  let address = try await server.waitUntilListening()
  let loop = try EventLoop()
  let result: Result<Void, any Error>
  do { result = .success(try await body(server, address, loop)) } catch { result = .failure(error) }
  await loop.shutdown()
  #expect(loop.statistics.handles == 0 && loop.statistics.requests == 0)
  try result.get()
}

extension TCPStream {
  /// Sends `bytes` and returns as many as come back.
  func echo(_ bytes: [UInt8]) async throws -> [UInt8] {
    try await write(bytes)
    var echo: [UInt8] = []
    while echo.count < bytes.count, let part = try await read() { echo += part }
    return echo
  }
}
