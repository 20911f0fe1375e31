internal import Testing
public import UV

/// Two ends of one connection with small buffers, of which only `near` has the time limits. Otherwise as ``withConnectedStreams``.
public func withTimeouts(
  read: Duration? = nil, write: Duration? = nil, idle: Duration? = nil,
  _ place: Place = .elsewhere,
  _ body: (_ near: TCPStream, _ far: TCPStream) async throws -> Void
) async throws {
  var options = TCPOptions.smallBuffers
  options.readTimeout = read
  options.writeTimeout = write
  options.idleTimeout = idle
  var listening = TCPListener.Options()
  listening.stream = .smallBuffers
  try await withLoop { loop in
    try await TCPListener.withListener(
      on: .loopback(port: 0), options: listening, loop: loop
    ) { listener in
      let near = try await TCPStream.connect(
        to: listener.localAddress, options: options, loop: loop)
      defer { near.abort() }
      let far = try await listener.accept()
      defer { far.abort() }
      try await place.run(loop) { try await body(near, far) }
    }
    await expectNothingLeft(on: loop)
  }
}
