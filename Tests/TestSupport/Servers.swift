public import Testing
public import UV

/// A server for one test, on a listener of its own; clients live on `clients`.
public struct Server: Sendable {
  public let listener: TCPListener
  public let clients: EventLoop
  /// What `serve` gives.
  public let serving: Task<Void, any Error>
  public let hasEnded: Event

  public var port: Int { listener.localAddress.port }

  /// For the caller to close.
  public func connect(options: TCPOptions = TCPOptions()) async throws -> TCPStream {
    try await TCPStream.connect(to: listener.localAddress, options: options, loop: clients)
  }

  /// A client, reset at the end.
  public func withClient<Value>(
    options: TCPOptions = TCPOptions(), _ body: (TCPStream) async throws -> Value
  ) async throws -> Value {
    let stream = try await connect(options: options)
    defer { stream.abort() }
    return try await body(stream)
  }

  public func cancel() { serving.cancel() }

  /// Waits for the end that a cancelled server has.
  public func expectCancelled(sourceLocation: SourceLocation = #_sourceLocation) async {
    await #expect(throws: CancellationError.self, sourceLocation: sourceLocation) {
      try await serving.value
    }
  }
}

/// How a server is set up.
public struct ServerSetup: Sendable {
  public typealias Handler = @Sendable (TCPStream) async throws -> Void

  public var maxConnections: Int?
  public var gracePeriod = Duration.zero
  public var group: EventLoopGroup?
  public var executor: (any TaskExecutor)?
  public var options = TCPListener.Options()
  /// What handlers throw goes there, or to ``Report``.
  public var onError: (@Sendable (any Error, TCPStream) -> Void)?

  fileprivate let handler: Handler

  public init(_ handler: @escaping Handler) { self.handler = handler }
}

/// A server on a loop of its own. At the end it is cancelled, if it has not ended, and nothing may be left on any loop.
public func withServer(
  _ setup: ServerSetup, sourceLocation: SourceLocation = #_sourceLocation,
  _ body: (Server) async throws -> Void
) async throws {
  try await withLoop { clients in
    try await withLoop { loop in
      let listener = try TCPListener(on: .loopback(port: 0), options: setup.options, loop: loop)
      let hasEnded = Event()
      let serving = Task {
        defer { hasEnded.set() }
        try await listener.serve(
          maxConnections: setup.maxConnections, gracePeriod: setup.gracePeriod, on: setup.group,
          executor: setup.executor, onError: setup.onError, setup.handler)
      }
      let server = Server(
        listener: listener, clients: clients, serving: serving, hasEnded: hasEnded)
      do {
        try await body(server)
      } catch {
        Issue.record(error, sourceLocation: sourceLocation)
      }
      serving.cancel()
      _ = await serving.result
      await listener.close()
      await expectNothingLeft(on: loop, sourceLocation: sourceLocation)
    }
    await expectNothingLeft(on: clients, sourceLocation: sourceLocation)
  }
}

/// A handler that sends back what comes.
@Sendable public func echo(_ stream: TCPStream) async throws {
  for try await bytes in stream { try await stream.write(bytes) }
}

extension TCPStream {
  /// Sends `text` and waits for the same to come back.
  public func expectEcho(
    _ text: String = "echo", sourceLocation: SourceLocation = #_sourceLocation
  ) async throws {
    try await write(text)
    let answer = try await read(exactly: text.utf8.count)
    #expect(answer == Array(text.utf8), sourceLocation: sourceLocation)
  }

  /// Reads up to the end, be it one in order or an error.
  ///
  /// - Returns: Whether it was one in order.
  public func readToAnyEnd() async -> Bool {
    do {
      while try await read() != nil {}
      return true
    } catch {
      return false
    }
  }
}

extension EventLoop {
  /// The handles of this moment, as the loop's own thread sees them: elsewhere one may still be counted whose end is known already.
  public func handlesNow() async throws -> Int { try await run { self.statistics.handles } }
}

/// Waits for `event` whether the task has been cancelled or not, as a handler does that ignores it.
public func waitUncancelled(for event: Event) async {
  await Task.detached { await event.wait() }.value
}
