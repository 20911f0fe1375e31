import Glibc
import TestSupport
import Testing
import UV

@Suite(.timeLimit(.minutes(1))) struct EventLoopGroupTests {
  @Test func loopsAreDistinctAndTakenInTurn() async throws {
    try await withGroup(of: 4) { group in
      #expect(Set(group.loops.map(ObjectIdentifier.init)).count == 4)
      for round in 0..<10 { #expect(group.next() === group.loops[round % 4]) }
    }
  }

  @Test func theyAreAsManyAsProcessorsUnlessANumberIsGiven() async throws {
    let group = try EventLoopGroup()
    #expect(group.loops.count >= 1)
    #expect(group.loops.count <= sysconf(CInt(_SC_NPROCESSORS_CONF)))
    await group.shutdown()
  }

  @Test func loopsThatAreShutDownHaveNoTurn() async throws {
    try await withGroup(of: 3) { group in
      await group.loops[1].shutdown()
      let taken = Set((0..<6).map { _ in ObjectIdentifier(group.next()) })
      #expect(taken == [ObjectIdentifier(group.loops[0]), ObjectIdentifier(group.loops[2])])
      await group.shutdown()
      #expect(group.loops.contains { $0 === group.next() })
    }
  }

  @Test func turnsAreSharedOutEvenlyToManyThreads() async throws {
    try await withGroup(of: 4) { group in
      let taken = Collected<ObjectIdentifier>()
      await onThreads(8) { _ in
        for _ in 0..<1_000 { taken.append(ObjectIdentifier(group.next())) }
      }
      for loop in group.loops {
        #expect(taken.values.count { $0 == ObjectIdentifier(loop) } == 2_000)
      }
    }
  }

  @Test func groupWithoutALoopTraps() async {
    await #expect(processExitsWith: .failure) { _ = try EventLoopGroup(loops: 0) }
    await #expect(processExitsWith: .failure) { _ = try EventLoopGroup(loops: -1) }
  }

  @Test func shutdownEndsAllLoops() async throws {
    let group = try EventLoopGroup(loops: 3)
    let sleepers = group.loops.map { loop in Task { try await loop.sleep(for: .seconds(1_000)) } }
    for loop in group.loops {
      await eventually("the sleep has begun") { loop.statistics.handles == 1 }
    }
    await group.shutdown()
    for sleeper in sleepers {
      await #expect(throws: EventLoopClosed.self) { try await sleeper.value }
    }
    for loop in group.loops { #expect(throws: EventLoopClosed.self) { try loop.execute {} } }
    await group.shutdown(gracePeriod: .seconds(1_000))
  }

  @Test func droppedGroupLetsGoOfItsLoops() async throws {
    func loops() throws -> [WeakLoop] { try EventLoopGroup(loops: 3).loops.map(WeakLoop.init) }
    for loop in try loops() { await expectGone("a loop of the group") { loop.isAlive } }
  }
}

/// Servers that give their streams to the loops of a group.
@Suite(.timeLimit(.minutes(1))) struct ServeOnGroupTests {
  @Test func clientsAreSharedOutToTheLoopsOfAGroup() async throws {
    try await withGroup(of: 2) { group in
      let served = Collected<(loop: ObjectIdentifier, isCurrent: Bool)>()
      var setup = ServerSetup { stream in
        served.append((ObjectIdentifier(stream.loop), stream.loop.isCurrent))
        try await echo(stream)
        served.append((ObjectIdentifier(stream.loop), stream.loop.isCurrent))
      }
      setup.group = group
      try await withServer(setup) { server in
        await withTaskGroup { clients in
          for _ in 0..<100 {
            clients.addTask {
              await #expect(throws: Never.self) {
                let near = try await server.connect()
                try await near.expectEcho()
                await near.close()
              }
            }
          }
        }
        await served.waitUntil(count: 200)
        for loop in group.loops {
          #expect(served.values.count { $0.loop == ObjectIdentifier(loop) } == 100)
        }
        #expect(served.values.allSatisfy { $0.isCurrent })
      }
    }
  }

  @Test func idleClientsOfAGroupGetTheEndOfADrain() async throws {
    try await withGroup(of: 2) { group in
      var setup = ServerSetup(echo)
      (setup.group, setup.gracePeriod) = (group, .seconds(1_000))
      try await withServer(setup) { server in
        var clients: [TCPStream] = []
        for _ in 0..<10 {
          clients.append(try await server.connect())
          try await clients.last!.expectEcho()
        }
        server.cancel()
        for near in clients {
          #expect(try await near.read() == nil)
          await near.close()
        }
        await server.expectCancelled()
        for loop in group.loops { #expect(try await loop.handlesNow() == 0) }
      }
    }
  }

  @Test func shutdownOfALoopOfTheGroupLeavesServingToTheOthers() async throws {
    try await withGroup(of: 3) { group in
      var setup = ServerSetup(echo)
      setup.group = group
      setup.onError = { _, _ in }  // Its loop was shut down, or it went away.
      try await withServer(setup) { server in
        let first = try await server.connect()
        try await first.expectEcho()
        await group.loops[0].shutdown()
        _ = await first.readToAnyEnd()
        first.abort()
        for _ in 0..<9 { try await server.withClient { try await $0.expectEcho() } }
        for loop in group.loops { await loop.shutdown() }
        // Nobody is left to serve this one.
        try? await server.withClient { near in _ = try? await near.write("x") }
        await #expect(throws: EventLoopClosed.self) { try await server.serving.value }
      }
    }
  }

  /// Nobody would ever take it.
  @Test func clientIsNotLeftWaitingWhenServingHasGivenUp() async throws {
    try await withGroup(of: 1) { group in
      let (hasBegun, goOn) = (Event(), Event())
      var setup = ServerSetup { _ in
        hasBegun.set()
        await waitUncancelled(for: goOn)
      }
      setup.group = group
      setup.onError = { _, _ in }
      try await withServer(setup) { server in
        defer { goOn.set() }
        try await server.withClient { near in
          await hasBegun.wait()
          await group.shutdown()
          try await server.withClient { _ = await $0.readToAnyEnd() }
          // It is served, or sees an end, or is refused.
          if let near = try? await server.connect() {
            _ = try? await near.read()
            near.abort()
          }
        }
      }
    }
  }
}
