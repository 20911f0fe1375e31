import Dispatch
import TestSupport
import Testing
import UV

@Suite(.timeLimit(.minutes(1))) struct ServeTests {
  @Test func handlersRunOnTheLoopOfTheirStream() async throws {
    let places = Collected<Bool>()
    let setup = ServerSetup { stream in
      places.append(stream.loop.isCurrent)
      for try await bytes in stream {
        places.append(stream.loop.isCurrent)
        try await stream.write(bytes)
        places.append(stream.loop.isCurrent)
        await Task { await Task.yield() }.value
        places.append(stream.loop.isCurrent)
      }
    }
    try await withServer(setup) { server in
      for _ in 0..<10 { try await server.withClient { try await $0.expectEcho() } }
      await places.waitUntil(count: 30)
      #expect(places.values.allSatisfy { $0 })
    }
  }

  @Test func handlersRunWhereTheExecutorSays() async throws {
    let places = Collected<Bool>()
    var setup = ServerSetup { stream in
      places.append(stream.loop.isCurrent)
      for try await bytes in stream {
        places.append(stream.loop.isCurrent)
        try await stream.write(bytes)
        places.append(stream.loop.isCurrent)
      }
    }
    setup.executor = globalConcurrentExecutor
    try await withServer(setup) { server in
      for _ in 0..<10 { try await server.withClient { try await $0.expectEcho() } }
      await places.waitUntil(count: 30)
      #expect(!places.values.contains(true))
    }
  }

  /// What a blocking handler must not do on the loop, it may do elsewhere.
  @Test func handlerThatBlocksElsewhereKeepsNobodyWaiting() async throws {
    let goOn = DispatchSemaphore(value: 0)
    var setup = ServerSetup { stream in
      if try await stream.readLine() == "block" { waitForAnotherThread { goOn.wait() } }
      try await stream.write("done")
    }
    setup.executor = globalConcurrentExecutor
    try await withServer(setup) { server in
      try await server.withClient { blocked in
        try await blocked.write("block\n")
        try await server.withClient { other in
          try await other.write("go\n")
          #expect(try await other.read(exactly: 4) == Array("done".utf8))
        }
        goOn.signal()
        #expect(try await blocked.read(exactly: 4) == Array("done".utf8))
      }
    }
  }

  @Test func streamIsClosedInOrderWhenItsHandlerReturns() async throws {
    let count = 1_000_000
    let setup = ServerSetup { try await $0.write(Pattern.bytes(count)) }
    try await withServer(setup) { server in
      for _ in 0..<10 {
        try await server.withClient { near in
          // Bytes that nobody reads must not make a reset of it.
          try await near.write("unread")
          #expect(try await near.readPattern() == count)
          #expect(try await near.read() == nil)
        }
      }
    }
  }

  @Test func streamIsResetAndTheErrorToldWhenItsHandlerThrows() async throws {
    struct OfTheHandler: Error {}
    let errors = Collected<(error: any Error, peer: SocketAddress?, isOnLoop: Bool)>()
    var setup = ServerSetup { stream in
      for try await bytes in stream {
        if bytes == Array("throw".utf8) { throw OfTheHandler() }
        try await stream.write(bytes)
      }
    }
    setup.onError = { errors.append(($0, $1.peerAddress, $1.loop.isCurrent)) }
    try await withServer(setup) { server in
      try await server.withClient { other in
        try await other.expectEcho()
        try await server.withClient { near in
          try await near.expectEcho()
          try await near.write("throw")
          await expectError(.connectionReset) { _ = try await near.read() }
          await errors.waitUntil(count: 1)
          #expect(errors.values[0].error is OfTheHandler)
          #expect(errors.values[0].peer == near.localAddress)
          #expect(errors.values[0].isOnLoop)
        }
        try await other.expectEcho()
        try await server.withClient { try await $0.expectEcho() }
        #expect(errors.values.count { $0.error is OfTheHandler } == 1)
      }
    }
  }

  @Test func errorsThatNobodyTakesAreReported() async throws {
    struct OfTheHandler: Error {}
    let setup = ServerSetup { stream in
      _ = try await stream.read()
      throw OfTheHandler()
    }
    try await withServer(setup) { server in
      try await server.withClient { near in
        let reports = Collected<String>()
        let address = "\(near.localAddress!)"
        try await withReports(about: FilePath(address), to: reports) {
          try await near.write("x")
          await reports.waitUntil(count: 1)
        }
        #expect(reports.values == ["serving \(address): OfTheHandler()"])
      }
    }
  }

  @Test(arguments: [false, true])
  func noMoreThanTheGreatestNumberIsServedAtOnce(_ isOfTheListener: Bool) async throws {
    let (now, most) = (Tally(), Collected<Int>())
    var setup = ServerSetup { stream in
      most.append(now.add())
      defer { now.add(-1) }
      try await echo(stream)
    }
    if isOfTheListener { setup.options.maxConnections = 3 } else { setup.maxConnections = 3 }
    try await withServer(setup) { server in
      await withTaskGroup { group in
        for _ in 0..<50 {
          group.addTask {
            await #expect(throws: Never.self) {
              try await server.withClient { try await $0.expectEcho() }
            }
          }
        }
      }
      #expect(most.count == 50)
      #expect(most.values.max()! <= 3)
    }
  }

  @Test func manyClientsComeAndGo() async throws {
    let served = Tally()
    let setup = ServerSetup { stream in
      defer { served.add() }
      try await echo(stream)
    }
    try await withServer(setup) { server in
      for _ in 0..<10 {
        await withTaskGroup { group in
          for number in 0..<50 {
            group.addTask(executorPreference: number % 2 == 0 ? server.clients : nil) {
              await #expect(throws: Never.self) {
                let near = try await server.connect()
                try await near.expectEcho("client \(number)")
                await near.close()
                #expect(await !near.readToAnyEnd())
              }
            }
          }
        }
      }
      await eventually("all handlers have ended") { served.value == 500 }
      await expectNothingLeft(on: server.clients)
      await eventually("the streams are gone") { server.listener.loop.statistics.handles == 1 }
    }
  }

  /// A client that cannot be set up is one client's trouble.
  @Test func clientThatCannotBeSetUpDoesNotEndTheServer() async throws {
    var setup = ServerSetup(echo)
    setup.options.stream.sendBufferSize = -1
    try await withServer(setup) { server in
      for _ in 0..<10 {
        try await server.withClient { near in _ = await near.readToAnyEnd() }
      }
      #expect(!server.hasEnded.isSet)
      server.cancel()
      await server.expectCancelled()
    }
  }

  @Test func closingTheListenerEndsServingWhenTheHandlersHaveReturned() async throws {
    try await withServer(ServerSetup(echo)) { server in
      try await server.withClient { near in
        try await near.expectEcho()
        await server.listener.close()
        await expectError(.connectionRefused) { _ = try await server.connect() }
        for _ in 0..<20 { try await near.expectEcho() }
        #expect(!server.hasEnded.isSet)
        await near.close()
        try await server.serving.value
      }
    }
  }

  @Test func cancellingAfterTheListenerWasClosedEndsTheHandlers() async throws {
    try await withServer(ServerSetup(echo)) { server in
      try await server.withClient { near in
        try await near.expectEcho()
        await server.listener.close()
        server.cancel()
        #expect(await !near.readToAnyEnd())
        await server.expectCancelled()
      }
    }
  }

  @Test(arguments: [Duration.zero, .seconds(1_000)])
  func shutdownOfTheLoopEndsServing(_ gracePeriod: Duration) async throws {
    var setup = ServerSetup(echo)
    setup.onError = { _, _ in }
    try await withServer(setup) { server in
      try await server.withClient { near in
        try await near.expectEcho()
        async let shutdown: Void = server.listener.loop.shutdown(gracePeriod: gracePeriod)
        if gracePeriod == .zero {
          _ = await near.readToAnyEnd()
        } else {
          for _ in 0..<20 { try await near.expectEcho() }
          await near.close()
        }
        await shutdown
        await #expect(throws: EventLoopClosed.self) { try await server.serving.value }
      }
    }
  }

  @Test func servingOnALoopThatHasBeenShutDownIsRefused() async throws {
    try await withLoop { loop in
      let listener = try TCPListener(on: .loopback(port: 0), loop: loop)
      await loop.shutdown()
      await #expect(throws: EventLoopClosed.self) {
        try await listener.serve(maxConnections: 1) { _ in Issue.record("nobody can come") }
      }
    }
  }
}
