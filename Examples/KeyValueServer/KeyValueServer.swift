import Glibc
import UV

/// Serves clients on one event loop, which everything lives on: the keys need neither a lock nor an actor.
// Unchecked: all but `init` runs on the loop's thread, which every way in from outside asserts.
final class KeyValueServer: @unchecked Sendable {
  private let options: Options
  private let loop: EventLoop
  private let state: ServerState
  private var isStopping = false

  private init(_ options: Options, _ loop: EventLoop) {
    self.options = options
    self.loop = loop
    state = ServerState(options, Store(loop: loop))
  }

  /// Serves until Ctrl-C or SIGTERM, and lets busy clients finish for a while.
  static func run(_ options: Options) async throws {
    let loop = try EventLoop()
    let server = KeyValueServer(options, loop)
    try await Task(executorPreference: loop) { try await server.run() }.value
    await loop.shutdown()
  }

  private func run() async throws {
    loop.preconditionIsCurrent()
    // First of all: a second server on the same port must not touch the file of the first.
    let listener = try await listen()
    state.port = listener.localAddress.port
    try await openLog()
    let serving = Task(executorPreference: loop) {
      // A client that is gone is nobody's business.
      try await listener.serve(onError: { _, _ in }) { try await self.serve($0) }
    }
    let observers = [try observe(.interrupt, serving), try observe(.terminate, serving)]
    print("listening on \(listener.localAddress)")
    fflush(nil)

    let end = await serving.result
    await listener.close()
    state.store.endExpiring()
    try await state.log?.close()
    withExtendedLifetime(observers) {}
    if case .failure(let error) = end, !(error is CancellationError) { throw error }
  }

  private func listen() async throws -> TCPListener {
    let addresses = try await loop.resolve(options.host, port: options.port)
    guard let address = addresses.first else {
      throw IOError(.nameNotKnown, "listen", options.host)
    }
    return try TCPListener(on: address, loop: loop)
  }

  private func openLog() async throws {
    if let path = options.appendOnlyFile {
      let log = try await AppendOnlyFile.open(
        at: FilePath(path), options.syncPolicy, for: state, loop: loop)
      state.log = log
      state.store.whenExpired = { key in log.append { $0.command("DEL", Array(key.bytes)) } }
    }
    state.store.beginExpiring()
  }

  private func observe(
    _ signal: Signal, _ serving: Task<Void, any Error>
  ) throws -> SignalObserver {
    try loop.observe(signal) { _ in
      self.loop.preconditionIsCurrent()
      if self.isStopping {
        exit(130)  // As a shell reports a program that Ctrl-C ended.
      }
      self.isStopping = true
      serving.cancel()
    }
  }

  // MARK: Clients

  /// Answers one client until it ends. It is not read from while it does not take its replies.
  private func serve(_ stream: TCPStream) async throws {
    loop.preconditionIsCurrent()
    let session = Session(state)
    state.clientCount += 1
    defer { state.clientCount -= 1 }
    while !session.isOver, let count = try await stream.read(into: session.makeRoom()) {
      session.received(count)
      var isAll = false
      while !isAll {
        isAll = session.runCommands(repliesUpTo: 65_536)
        // Nobody is told what a crash could undo, whoever has changed it.
        if let log = state.log, log.mustWait { await log.waitUntilWritten() }
        if !session.replies.isEmpty { try await stream.write(session.replies.bytes) }
        session.replies.removeAll()
      }
    }
  }
}
