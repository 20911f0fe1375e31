import TestSupport
import Testing
import UV

/// How a server ends that is cancelled.
@Suite(.timeLimit(.minutes(1))) struct ServeEndTests {
  /// Each says a word: a connection that is made in the very moment in which its listener closes has no other side on Linux, and is told so
  /// only when it sends.
  @Test func clientsThatConnectMeanwhileAllSeeAnEnd() async throws {
    for round in 0..<50 {
      let handled = Tally()
      let setup = ServerSetup { stream in
        handled.add()
        try await echo(stream)
      }
      try await withServer(setup) { server in
        await withTaskGroup { group in
          for number in 0..<64 {
            group.addTask(executorPreference: number % 2 == 0 ? server.clients : nil) {
              guard let near = try? await server.connect() else { return }
              try? await near.write("x")
              _ = await near.readToAnyEnd()
              near.abort()
            }
          }
          await eventually("some have come") { handled.value >= round % 40 }
          server.cancel()
        }
        await server.expectCancelled()
      }
    }
  }

  @Test func clientsOfAGroupThatConnectMeanwhileAllSeeAnEnd() async throws {
    for round in 0..<20 {
      try await withGroup(of: 2) { group in
        var setup = ServerSetup(echo)
        setup.group = group
        try await withServer(setup) { (server) async throws in
          await withTaskGroup { clients in
            for _ in 0..<64 {
              clients.addTask {
                guard let near = try? await server.connect() else { return }
                try? await near.write("x")
                _ = await near.readToAnyEnd()
                near.abort()
              }
            }
            await eventually("some have come") {
              group.loops.reduce(0) { $0 + $1.statistics.handles } >= round
            }
            server.cancel()
          }
          await server.expectCancelled()
          // This is so when it returns, and not only soon afterwards.
          for loop in group.loops { #expect(try await loop.handlesNow() == 0) }
        }
      }
    }
  }

  @Test func portIsRefusedWhileHandlersGoOn() async throws {
    let goOn = Event()
    var setup = ServerSetup { stream in
      _ = try await stream.read()
      await goOn.wait()
      try await stream.write("answer")
    }
    setup.gracePeriod = .seconds(1_000)
    try await withServer(setup) { server in
      try await server.withClient { near in
        try await near.write("request")
        await eventually("the client is served") {
          server.listener.loop.statistics.handles >= 2
        }
        server.cancel()
        try await server.listener.loop.someTurns()
        await expectError(.connectionRefused) { _ = try await server.connect() }
        // Another one may have it.
        let other = try TCPListener(on: server.listener.localAddress, loop: server.clients)
        await other.close()
        #expect(!server.hasEnded.isSet)
        goOn.set()
        #expect(try await near.read(exactly: 6) == Array("answer".utf8))
        #expect(try await near.read() == nil)
        near.abort()
        await server.expectCancelled()
      }
    }
  }

  @Test(arguments: [Duration.zero, .seconds(1_000)])
  func taskThatIsCancelledBeforehandServesNobody(_ gracePeriod: Duration) async throws {
    try await withLoop { loop in
      for _ in 0..<50 {
        let listener = try TCPListener(on: .loopback(port: 0), loop: loop)
        let client = RawSocket.connected(toPort: listener.localAddress.port)
        let mayBegin = Event()
        let serving = Task {
          await waitUncancelled(for: mayBegin)
          try await listener.serve(gracePeriod: gracePeriod, echo)
        }
        serving.cancel()
        mayBegin.set()
        await #expect(throws: CancellationError.self) { try await serving.value }
        await expectError(.connectionRefused) {
          _ = try await TCPStream.connect(to: listener.localAddress, loop: loop)
        }
        RawSocket.reset(client)
        await expectNothingLeft(on: loop)
      }
    }
  }

  @Test func cancellingAtAnyMomentOfTheBeginningEndsServing() async throws {
    try await withLoop { loop in
      for round in 0..<300 {
        let listener = try TCPListener(on: .loopback(port: 0), loop: loop)
        let client = RawSocket.connected(toPort: listener.localAddress.port)
        let serving = Task { try await listener.serve(gracePeriod: .zero, echo) }
        for _ in 0..<round % 10 { await Task.yield() }
        serving.cancel()
        await #expect(throws: CancellationError.self) { try await serving.value }
        RawSocket.reset(client)
      }
      await expectNothingLeft(on: loop)
    }
  }

  @Test func handlerThatIgnoresTheCancellationIsWaitedFor() async throws {
    let (hasBegun, goOn) = (Event(), Event())
    let setup = ServerSetup { _ in
      hasBegun.set()
      await waitUncancelled(for: goOn)
      #expect(Task.isCancelled)
    }
    try await withServer(setup) { server in
      try await server.withClient { near in
        await hasBegun.wait()
        server.cancel()
        #expect(await !near.readToAnyEnd())
        try await server.listener.loop.someTurns()
        #expect(!server.hasEnded.isSet)
        goOn.set()
        await server.expectCancelled()
      }
    }
  }

  @Test func handlersAreCancelledWhenTheGraceIsOver() async throws {
    let (hasBegun, errors) = (Event(), Collected<any Error>())
    var setup = ServerSetup { stream in
      hasBegun.set()
      try await stream.loop.sleep(for: .seconds(1_000))
    }
    setup.gracePeriod = .milliseconds(200)
    setup.onError = { error, _ in errors.append(error) }
    try await withServer(setup) { server in
      try await server.withClient { near in
        await hasBegun.wait()
        let begin = ContinuousClock.now
        server.cancel()
        #expect(await !near.readToAnyEnd())
        let elapsed = begin.duration(to: .now)
        #expect(elapsed >= .milliseconds(200))
        await server.expectCancelled()
        #expect(errors.values.isEmpty)
      }
    }
  }

  /// The client has been accepted, and the loop that is to have it has not heard of it yet.
  @Test(arguments: [Duration.zero, .seconds(1_000)])
  func clientThatIsOnItsWayToItsLoopIsEndedToo(_ gracePeriod: Duration) async throws {
    for _ in 0..<8 {
      try await withGroup(of: 1) { group in
        var setup = ServerSetup(echo)
        (setup.group, setup.gracePeriod) = (group, gracePeriod)
        try await withServer(setup) { server in
          let block = try await BlockedLoop(group.loops[0])
          try await server.withClient { near in
            for _ in 0..<3 { try await server.listener.loop.someTurns() }
            server.cancel()
            for _ in 0..<3 { try await server.listener.loop.someTurns() }
            #expect(!server.hasEnded.isSet)
            block.end()
            _ = await near.readToAnyEnd()
            near.abort()
            await server.expectCancelled()
            #expect(try await group.loops[0].handlesNow() == 0)
          }
        }
      }
    }
  }
}
