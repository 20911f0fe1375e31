import TestSupport
import Testing
import UV

/// The grace period of a server that is cancelled.
@Suite(.timeLimit(.minutes(1))) struct ServeDrainTests {
  @Test func idleClientsGetTheEnd() async throws {
    var setup = ServerSetup(echo)
    setup.gracePeriod = .seconds(1_000)
    try await withServer(setup) { server in
      let clients = try await connected(20, server)
      server.cancel()
      for near in clients {
        #expect(try await near.read() == nil)
        await near.close()
      }
      await server.expectCancelled()
    }
  }

  /// A quarter of a second, of which libuv's clock, in milliseconds, may take one away.
  @Test func clientIsNotIdleEarly() async throws {
    var setup = ServerSetup(echo)
    setup.gracePeriod = .seconds(1_000)
    for _ in 0..<3 {
      try await withServer(setup) { server in
        try await server.withClient { near in
          let begin = ContinuousClock.now
          try await near.expectEcho()
          server.cancel()
          #expect(try await near.read() == nil)
          let elapsed = begin.duration(to: .now)
          #expect(elapsed >= .milliseconds(249))
        }
        await server.expectCancelled()
      }
    }
  }

  @Test func handlerThatDoesNotReadSeesThatItIsToEnd() async throws {
    var setup = ServerSetup { stream in
      #expect(!stream.isDraining)
      try await stream.write("hello\n")
      while !stream.isDraining { try await stream.loop.sleep(for: .milliseconds(1)) }
      try await stream.write("goodbye\n")
    }
    setup.gracePeriod = .seconds(1_000)
    try await withServer(setup) { server in
      try await server.withClient { near in
        let first = try await near.readLine()
        server.cancel()
        let last = try await near.readLine()
        #expect(first == "hello" && last == "goodbye")
      }
      await server.expectCancelled()
    }
  }

  @Test(arguments: [false, true])
  func halfAMessageIsNotTakenForAWholeOne(isLine: Bool) async throws {
    let seen = Collected<String>()
    var setup = ServerSetup { stream in
      try await stream.write("go on\n")
      do {
        let message =
          isLine ? try await stream.readLine() : try await text(stream.read(exactly: 10))
        seen.append("\(message ?? "nothing")")
      } catch let error as IncompleteRead {
        seen.append("\(error.available) of \(error.expected)")
      }
      // It is still there for those who want it.
      seen.append(try await text(stream.read()) ?? "nothing")
      #expect(try await stream.read() == nil)
    }
    setup.gracePeriod = .seconds(1_000)
    try await withServer(setup) { server in
      try await server.withClient { near in
        try await near.write("half")
        let line = try await near.readLine()
        #expect(line == "go on")
        try await server.clients.sleep(for: .milliseconds(50))
        server.cancel()
        #expect(try await near.read() == nil)
      }
      await server.expectCancelled()
    }
    #expect(seen.values == [isLine ? "nothing" : "4 of 10", "half"])
  }

  @Test func handlerThatIsBusyMayAnswer() async throws {
    let (busy, goOn) = (Event(), Event())
    var setup = ServerSetup { stream in
      while let line = try await stream.readLine() {
        if line == "work" {
          busy.set()
          await goOn.wait()
          #expect(!Task.isCancelled)
        }
        try await stream.write("answer to \(line)\n")
      }
    }
    setup.gracePeriod = .seconds(1_000)
    try await withServer(setup) { server in
      try await server.withClient { idle in
        try await server.withClient { near in
          try await near.write("work\n")
          await busy.wait()
          server.cancel()
          // By then it has been silent for long.
          #expect(try await idle.read() == nil)
          goOn.set()
          #expect(try await near.readLine() == "answer to work")
          #expect(try await near.readLine() == nil)
        }
      }
      await server.expectCancelled()
    }
  }

  /// What a client has sent while its handler was busy is served too.
  @Test func bytesThatHaveComeAreServedBeforeTheEnd() async throws {
    let (busy, goOn) = (Event(), Event())
    var setup = ServerSetup { stream in
      busy.set()
      await goOn.wait()
      try await echo(stream)
    }
    setup.gracePeriod = .seconds(1_000)
    try await withServer(setup) { server in
      try await server.withClient { idle in
        try await server.withClient { near in
          try await near.write(Pattern.bytes(100_000))
          await busy.wait()
          server.cancel()
          let reading = Task { try await idle.read() }
          try await server.clients.sleep(for: .milliseconds(400))
          goOn.set()
          #expect(try await near.readPattern(100_000) == 100_000)
          #expect(try await near.read() == nil)
          #expect(try await reading.value == nil)
        }
      }
      await server.expectCancelled()
    }
  }

  @Test func clientThatGoesOnIsServedUntilItIsSilent() async throws {
    var setup = ServerSetup(echo)
    setup.gracePeriod = .seconds(1_000)
    try await withServer(setup) { server in
      try await server.withClient { idle in
        try await server.withClient { near in
          try await near.expectEcho()
          server.cancel()
          let idleEnd = Task { try await idle.read() }
          let begin = ContinuousClock.now
          while begin.duration(to: .now) < .milliseconds(700) { try await near.expectEcho() }
          #expect(try await idleEnd.value == nil)
          #expect(try await near.read() == nil)
        }
      }
      await server.expectCancelled()
    }
  }

  @Test func graceEndsAHandlerWhoseClientKeepsSending() async throws {
    let errors = Collected<any Error>()
    var setup = ServerSetup { _ = try await $0.read(exactly: .max) }
    setup.gracePeriod = .milliseconds(500)
    setup.onError = { error, _ in errors.append(error) }
    try await withServer(setup) { server in
      try await server.withClient { near in
        try await near.write("x")
        let begin = ContinuousClock.now
        server.cancel()
        await #expect(throws: IOError.self) {
          while true {
            try await near.write("x")
            try await near.loop.sleep(for: .milliseconds(1))
          }
        }
        let elapsed = begin.duration(to: .now)
        #expect(elapsed >= .milliseconds(500))
        await server.expectCancelled()
        #expect(errors.values.isEmpty)
      }
    }
  }

  @Test func graceEndsAHandlerWhoseClientDoesNotRead() async throws {
    let errors = Collected<any Error>()
    var setup = ServerSetup { stream in
      while true { try await stream.write(Pattern.bytes(1_048_576)) }
    }
    setup.options.stream = .smallBuffers
    setup.gracePeriod = .milliseconds(500)
    setup.onError = { error, _ in errors.append(error) }
    try await withServer(setup) { server in
      try await server.withClient(options: .smallBuffers) { (near) async throws in
        #expect(try await near.readPattern(10) == 10)
        server.cancel()
        await server.expectCancelled()
        #expect(errors.values.isEmpty)
        #expect(await !near.readToAnyEnd())
      }
    }
  }

  /// The handler has returned, and its client does not read what is to be sent before the end.
  @Test func graceEndsAStreamThatIsBeingClosed() async throws {
    let hasReturned = Event()
    var setup = ServerSetup { stream in
      let write = Task { try await stream.write(Pattern.bytes(16_777_216)) }
      await eventually("the write waits") { stream.bytesQueued > 0 }
      hasReturned.set()
      _ = write
    }
    setup.options.stream = .smallBuffers
    setup.gracePeriod = .milliseconds(300)
    try await withServer(setup) { server in
      try await server.withClient(options: .smallBuffers) { (near) async throws in
        await hasReturned.wait()
        server.cancel()
        await server.expectCancelled()
        #expect(try await server.listener.loop.handlesNow() == 0)
        #expect(await !near.readToAnyEnd())
      }
    }
  }

  @Test func errorsOfHandlersAreToldDuringTheGrace() async throws {
    struct OfTheHandler: Error {}
    let (busy, goOn, errors) = (Event(), Event(), Collected<any Error>())
    var setup = ServerSetup { _ in
      busy.set()
      await goOn.wait()
      throw OfTheHandler()
    }
    setup.gracePeriod = .seconds(1_000)
    setup.onError = { error, _ in errors.append(error) }
    try await withServer(setup) { server in
      try await server.withClient { near in
        await busy.wait()
        server.cancel()
        goOn.set()
        await expectError(.connectionReset) { _ = try await near.read() }
        await server.expectCancelled()
        #expect(errors.count == 1 && errors.values.first is OfTheHandler)
      }
    }
  }

  @Test func shutdownOfTheLoopEndsTheGrace() async throws {
    let (busy, errors) = (Event(), Collected<any Error>())
    var setup = ServerSetup { stream in
      busy.set()
      try await stream.write("working")
      while true { _ = try await stream.loop.sleep(for: .seconds(1_000)) }
    }
    setup.gracePeriod = .seconds(1_000)
    setup.onError = { error, _ in errors.append(error) }
    try await withServer(setup) { server in
      try await server.withClient { (near) async throws in
        await busy.wait()
        server.cancel()
        #expect(try await near.read(exactly: 7) == Array("working".utf8))
        await server.listener.loop.shutdown()
        await server.expectCancelled()
        _ = await near.readToAnyEnd()
      }
    }
  }
}

/// Clients that have been served once.
private func connected(_ count: Int, _ server: Server) async throws -> [TCPStream] {
  var clients: [TCPStream] = []
  for _ in 0..<count {
    let near = try await server.connect()
    try await near.expectEcho()
    clients.append(near)
  }
  return clients
}

private func text(_ bytes: [UInt8]?) -> String? {
  bytes.map { String(decoding: $0, as: UTF8.self) }
}
