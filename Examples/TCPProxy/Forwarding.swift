import UV

/// A host, a name or a numeric address, and a port.
struct Endpoint: CustomStringConvertible {
  let host: String
  let port: Int

  /// `example.com:80`, `127.0.0.1:80`, `[::1]:80`.
  init?(_ text: String) {
    guard let colon = text.lastIndex(of: ":"), let port = Int(text[text.index(after: colon)...]),
      (1...65_535).contains(port)
    else { return nil }
    var host = text[..<colon]
    if host.first == "[", host.last == "]" { host = host.dropFirst().dropLast() }
    guard !host.isEmpty else { return nil }
    self.host = String(host)
    self.port = port
  }

  var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}

/// Connects to `target` and passes on what either side sends, until both have sent their end.
///
/// A side that reads slowly holds the other: each piece is written before the next is read. When one direction fails, the other is
/// cancelled, and both connections are reset.
func forward(_ client: TCPStream, to target: Endpoint) async throws {
  try await TCPStream.withConnection(to: target.host, port: target.port, loop: client.loop) {
    server in
    try await withThrowingDiscardingTaskGroup { directions in
      directions.addTask { try await copy(from: client, to: server) }
      directions.addTask { try await copy(from: server, to: client) }
    }
  }
}

/// Passes the end on too: the receiver may still have something to say.
private func copy(from source: TCPStream, to sink: TCPStream) async throws {
  for try await bytes in source { try await sink.write(bytes) }
  try await sink.shutdownSending()
}
