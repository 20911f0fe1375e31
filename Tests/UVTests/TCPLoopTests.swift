import Glibc
import TestSupport
import Testing
import UV

/// Streams and their loop: shutting down, dropping, sharing its time.
@Suite(.timeLimit(.minutes(1))) struct TCPLoopTests {
  @Test(arguments: Place.allCases)
  func shutdownEndsWhateverWaits(_ place: Place) async throws {
    try await withLoop { loop in
      let (near, far) = try await connectedPair(on: loop, options: .smallBuffers)
      let (held, _) = try await near.fill()
      try await place.run(loop) {
        let reading = Task { try await near.read() }
        let writing = Task { try await near.write("x") }
        try await loop.someTurns()
        await loop.shutdown()
        await #expect(throws: EventLoopClosed.self) { try await reading.value }
        await #expect(throws: EventLoopClosed.self) { try await writing.value }
        await #expect(throws: EventLoopClosed.self) { try await held.value }
        await #expect(throws: EventLoopClosed.self) { try await near.read() }
        await #expect(throws: EventLoopClosed.self) { try await near.write("x") }
        await #expect(throws: EventLoopClosed.self) { try await near.shutdownSending() }
        await near.close()
        near.abort()
      }
      withExtendedLifetime(far) {}
    }
  }

  /// The handlers of both reads run in one turn.
  @Test func whatReadsExecuteKeepsItsOrder() async throws {
    try await withLoop { loop in
      try await TCPListener.withListener(on: .loopback(port: 0), loop: loop) { listener in
        let peers = (0..<2).map { _ in RawSocket.connected(toPort: listener.localAddress.port) }
        defer { for peer in peers { RawSocket.reset(peer) } }
        let streams = [try await listener.accept(), try await listener.accept()]
        let order = Collected<Int>()
        try await loop.run {
          for (number, stream) in streams.enumerated() {
            stream.core.read { _ in
              for step in 0..<2 { try! loop.execute { order.append(2 * number + step) } }
            }
          }
          for peer in peers { write(peer, "x", 1) }
        }
        let executed = await order.waitUntil(count: 4)
        // Whichever the system tells of first.
        #expect(executed == [0, 1, 2, 3] || executed == [2, 3, 0, 1])
        for stream in streams { stream.abort() }
      }
    }
  }

  @Test func shutdownWithGraceLetsStreamsFinish() async throws {
    try await withLoop { loop in
      let (near, far) = try await connectedPair(on: loop)
      let count = 8_388_608
      let isReading = Collected<Void>()
      let transfer = Task {
        async let writing: Void = near.write(Pattern.bytes(count))
        #expect(try await far.readPattern(1) == 1)
        isReading.append(())
        #expect(try await far.readPattern(count - 1, from: 1) == count - 1)
        try await writing
        await near.close()
        await far.close()
      }
      await isReading.waitUntil(count: 1)
      await loop.shutdown(gracePeriod: .seconds(1_000))
      try await transfer.value
    }
  }

  @Test func graceEndsForStreamsThatDoNot() async throws {
    try await withLoop { loop in
      let (near, far) = try await connectedPair(on: loop)
      let reading = Task { try await near.read() }
      try await loop.someTurns()
      await loop.shutdown(gracePeriod: .milliseconds(20))
      await #expect(throws: EventLoopClosed.self) { try await reading.value }
      far.abort()
    }
  }

  @Test(arguments: [Duration.zero, .milliseconds(20)])
  func shutdownUnderLoadEndsEveryTask(_ gracePeriod: Duration) async throws {
    try await withLoop { loop in
      let listener = try TCPListener(on: .loopback(port: 0), loop: loop)
      let echoes = Collected<Void>()
      await withTaskGroup { group in
        group.addTask(executorPreference: loop) {
          await withTaskGroup { connections in
            while let stream = try? await listener.accept() {
              connections.addTask {
                while let bytes = try? await stream.read() { try? await stream.write(bytes) }
                await stream.close()
              }
            }
          }
        }
        for index in 0..<20 {
          group.addTask(executorPreference: index % 2 == 0 ? loop : nil) {
            guard let near = try? await TCPStream.connect(to: listener.localAddress, loop: loop)
            else { return }
            let bytes = Pattern.bytes(index * 1_000 + 1)
            while (try? await near.write(bytes)) != nil, (try? await near.read()) != nil {
              echoes.append(())
            }
            await near.close()
          }
        }
        await echoes.waitUntil(count: 200)
        await loop.shutdown(gracePeriod: gracePeriod)
      }
    }
  }

  @Test func writerThatNeverWaitsLeavesTheLoopItsTurns() async throws {
    try await withConnectedStreams(.loopThread) { near, far in
      let isOver = Collected<Void>()
      let block = Pattern.bytes(1_024)
      let writer = Task(executorPreference: near.loop) {
        while isOver.count == 0 { try await near.write(block) }
        try await near.shutdownSending()
      }
      let reader = Task.detached { while try await far.read() != nil {} }
      // Each tick is due in the turn after the one before: they come only if turns go by.
      let ticks = Collected<Void>()
      let timer = try near.loop.schedule(every: .milliseconds(1)) { _ in ticks.append(()) }
      await ticks.waitUntil(count: 50)
      timer.cancel()
      isOver.append(())
      try await writer.value
      try await reader.value
    }
  }

  @Test func busyConnectionsLeaveAnotherOneItsTurns() async throws {
    try await withConnectedStreams { near, far in
      let loop = near.loop
      let isOver = Collected<Void>()
      let (fastNear, fastFar) = try await connectedPair(on: loop)
      let block = Pattern.bytes(65_536)
      let blaster = Task(executorPreference: loop) {
        while isOver.count == 0 { try await fastNear.write(block) }
        try await fastNear.shutdownSending()
      }
      let drain = Task(executorPreference: loop) { while try await fastFar.read() != nil {} }
      for _ in 0..<100 {
        try await near.write("ping")
        #expect(try await far.read() == Array("ping".utf8))
      }
      isOver.append(())
      try await blaster.value
      try await drain.value
      fastNear.abort()
      fastFar.abort()
    }
  }

  @Test func droppedStreamsAndListenersAreClosed() async throws {
    try await withLoop { loop in
      let (near, _) = try await connectedPair(on: loop)
      // `far` was dropped.
      #expect((try? await near.read()) == nil)
      near.abort()
      _ = try TCPListener(on: .loopback(port: 0), loop: loop)
      await expectNothingLeft(on: loop)
    }
  }

  @Test func anAbortFromElsewhereIsNotOvertakenByADropOnTheLoop() async throws {
    try await withLoop { loop in
      let pair = Box<(near: TCPStream, far: TCPStream)>()
      pair.value = try await connectedPair(on: loop)
      let far = pair.value!.far
      try await loop.run {
        waitForAnotherThread { pair.value!.near.abort() }
        // The last holder is the loop's thread, which has not yet heard of the abort.
        pair.value = nil
      }
      await #expect(throws: IOError(.connectionReset, "read", "\(far.peerAddress!)")) {
        try await far.read()
      }
      far.abort()
    }
  }

  @Test func droppedStreamsGiveTheirDescriptorsBack() async throws {
    await #expect(processExitsWith: .success) {
      Report.setHandler { _ in }
      try await withLoop { loop in
        let (near, far) = try await connectedPair(on: loop)
        near.abort()
        far.abort()
        await expectNothingLeft(on: loop)
        let base = openDescriptors()
        for _ in 0..<100 {
          _ = try await connectedPair(on: loop)
          _ = try TCPListener(on: .loopback(port: 0), loop: loop)
        }
        await expectNothingLeft(on: loop)
        await expectDescriptors(base)
      }
    }
  }

  @Test func manyConnectionsLeaveNoDescriptor() async throws {
    await #expect(processExitsWith: .success) {
      try await withLoop { loop in
        let listener = try TCPListener(on: .loopback(port: 0), loop: loop)
        // One run first, for what is made on first use.
        try await openAndClose(10, listener)
        await eventually("the listener is alone") { loop.statistics.handles == 1 }
        let base = openDescriptors()
        try await openAndClose(10_000, listener)
        await eventually("the listener is alone") { loop.statistics.handles == 1 }
        await expectDescriptors(base)
        await listener.close()
      }
    }
  }

  @Test func refusedAndCancelledConnectsLeaveNoDescriptor() async throws {
    await #expect(processExitsWith: .success) {
      try await withLoop { loop in
        try await RawSocket.withBoundPort { _, port in
          _ = try? await TCPStream.connect(to: .loopback(port: port), loop: loop)
          await expectNothingLeft(on: loop)
          let base = openDescriptors()
          for round in 0..<500 {
            let connecting = Task {
              try await TCPStream.connect(to: .loopback(port: port), loop: loop)
            }
            if round % 2 == 0 { connecting.cancel() }
            let stream = try? await connecting.value
            precondition(stream == nil)
          }
          await expectNothingLeft(on: loop)
          await expectDescriptors(base)
        }
      }
    }
  }
}

private func openAndClose(_ count: Int, _ listener: TCPListener) async throws {
  try await withTaskExecutorPreference(listener.loop) {
    for round in 0..<count {
      let near = try await TCPStream.connect(to: listener.localAddress, loop: listener.loop)
      let far = try await listener.accept()
      if round % 3 == 0 {
        try await near.write("x")
        _ = try await far.read()
      }
      if round % 2 == 0 { await near.close() } else { near.abort() }
      await far.close()
    }
  }
}
