import TestSupport
import Testing
import UV

@Suite(.timeLimit(.minutes(1))) struct TCPCloseTests {
  @Test(arguments: Place.allCases)
  func eitherSideCanBeClosedAlone(_ place: Place) async throws {
    try await withConnectedStreams(place) { near, far in
      try await near.write("question")
      try await near.shutdownSending()
      #expect(try await far.read() == Array("question".utf8))
      #expect(try await far.read() == nil)
      try await far.write(Pattern.bytes(100_000))
      try await far.shutdownSending()
      #expect(try await near.readPattern() == 100_000)
      await near.close()
      await far.close()
    }
  }

  @Test(arguments: Place.allCases)
  func shutdownMayBeRepeated(_ place: Place) async throws {
    try await withConnectedStreams(place) { near, far in
      async let first: Void = near.shutdownSending()
      async let second: Void = near.shutdownSending()
      _ = try await (first, second)
      try await near.shutdownSending()
      #expect(try await far.read() == nil)
      await near.close()
      await #expect(throws: StreamClosed("shutdown")) { try await near.shutdownSending() }
      far.abort()
      await #expect(throws: StreamClosed("shutdown")) { try await far.shutdownSending() }
    }
  }

  @Test func shutdownFollowsWhatIsQueuedAndEndsWithTheStream() async throws {
    for isAborted in [false, true] {
      try await withConnectedStreams(options: .smallBuffers) { near, far in
        let (held, count) = try await near.fill()
        let shutdown = Collected<String>()
        try await near.loop.run {
          near.core.shutdownSending { result in
            if case .failure(let error) = result {
              shutdown.append("\(error)")
            } else {
              shutdown.append("")
            }
          }
        }
        #expect(shutdown.count == 0)
        if isAborted {
          near.abort()
          await #expect(throws: StreamClosed("write")) { try await held.value }
          await shutdown.waitUntil(count: 1)
          #expect(shutdown.values == ["\(StreamClosed("write"))"])
        } else {
          async let closed: Void = near.close()
          #expect(try await far.readPattern() == count)
          try await held.value
          await closed
          #expect(shutdown.values == [""])
        }
      }
    }
  }

  @Test(arguments: Place.allCases)
  func closeMayBeRepeatedAtTheSameTime(_ place: Place) async throws {
    for _ in 0..<50 {
      try await withConnectedStreams(place) { near, far in
        try await near.write("bye")
        await withTaskGroup { group in
          for _ in 0..<4 { group.addTask { await near.close() } }
          group.addTask { near.abort() }
        }
        await near.close()
        near.abort()
        await far.close()
      }
    }
  }

  @Test func closeInsideEveryKindOfCompletionIsFine() async throws {
    try await withConnectedStreams { near, far in
      let log = Collected<String>()
      try await near.loop.run {
        near.core.read { _ in near.core.close(timeout: .seconds(1)) { log.append("near") } }
        far.core.write([1]) { _ in far.core.close(timeout: .seconds(1)) { log.append("far") } }
      }
      await log.waitUntil(count: 2)
    }
    try await withConnectedStreams { near, far in
      let log = Collected<String>()
      try await near.loop.run {
        near.core.read { _ in near.core.abort() }
        far.core.shutdownSending { _ in
          far.core.abort()
          far.core.close(timeout: .zero) { log.append("closed") }
        }
      }
      await log.waitUntil(count: 1)
    }
  }

  /// The close timer must not come back to life.
  @Test func abortInsideTheCompletionOfCloseLeavesNothing() async throws {
    try await withConnectedStreams { near, far in
      let log = Collected<Void>()
      try await near.loop.run {
        near.core.close(timeout: .seconds(1_000)) {
          near.core.abort()
          log.append(())
        }
      }
      await log.waitUntil(count: 1)
      far.abort()
      await eventually("nothing lives on the loop") { near.loop.statistics.handles == 0 }
    }
  }

  @Test func callsInsideTheFailureOfAReadAreRefused() async throws {
    try await withConnectedStreams { near, far in
      let log = Collected<String>()
      let first = try await near.loop.run {
        let core = near.core
        core.read { _ in
          core.read { if case .failure(let error) = $0 { log.append("\(error)") } }
          core.write([1]) { if case .failure(let error) = $0 { log.append("\(error)") } }
          core.close(timeout: .seconds(1)) { log.append("closed") }
        }
        core.close(timeout: .seconds(1)) { log.append("closed") }
        return log.values.prefix(2)
      }
      #expect(first == ["\(StreamClosed("read"))", "\(StreamClosed("write"))"])
      await log.waitUntil(count: 4)
      #expect(try await far.read() == nil)
    }
  }

  @Test func closeGivesUpOnAPeerThatDoesNotReadAtItsTimeout() async throws {
    try await withConnectedStreams(options: .smallBuffers) { near, far in
      let (held, _) = try await near.fill()
      await near.close(timeout: .milliseconds(20))
      await #expect(throws: IOError(.timedOut, "close", "\(near.peerAddress!)")) {
        try await held.value
      }
      await near.close()
      await #expect(throws: IOError(.connectionReset, "read", "\(far.peerAddress!)")) {
        try await far.readPattern()
      }
    }
  }

  @Test func abortEndsAClosing() async throws {
    try await withConnectedStreams(options: .smallBuffers) { near, far in
      let (held, _) = try await near.fill()
      let closing = Task { await near.close(timeout: .seconds(1_000)) }
      try await near.loop.someTurns()
      closing.cancel()
      near.abort()
      await closing.value
      await #expect(throws: StreamClosed("write")) { try await held.value }
    }
  }

  @Test func closedStreamStillSendsAllOfItsLastAnswer() async throws {
    for _ in 0..<100 {
      try await withConnectedStreams { near, far in
        let upload = Task { try? await near.write(Pattern.bytes(4_194_304)) }
        // The server has seen enough after a part.
        #expect(try await far.readPattern(100_000) == 100_000)
        try await far.write(Pattern.bytes(50_000))
        await far.close()
        #expect(try await near.readPattern() == 50_000)
        await upload.value
        await near.close()
      }
    }
  }

  /// A close that did not take in what still comes would wait for a peer that waits for it.
  @Test func closeSendsALargeAnswerToAPeerThatFirstFinishesItsUpload() async throws {
    try await withConnectedStreams(options: .smallBuffers) { near, far in
      let count = 8_388_608
      let upload = Task { try await near.write(Pattern.bytes(count)) }
      #expect(try await far.readPattern(100_000) == 100_000)
      let answer = Task { try await far.write(Pattern.bytes(count)) }
      await eventually("the answer is held") { far.bytesQueued > 0 }
      let closing = Task { await far.close(timeout: .seconds(1_000)) }
      try await upload.value
      #expect(try await near.readPattern() == count)
      try await answer.value
      await closing.value
    }
  }

  @Test(arguments: Place.allCases)
  func everyCallIsFineAfterTheEndOfTheStreamAndAfterAReset(_ place: Place) async throws {
    let calls: [@Sendable (TCPStream) async -> Void] = [
      { _ = try? await $0.read() }, { try? await $0.write("x") },
      { try? await $0.shutdownSending() }, { $0.shutdownReceiving() }, { await $0.close() },
      { $0.abort() }, { try? await $0.setNoDelay(true) },
    ]
    for first in calls.indices {
      for second in calls.indices {
        for isReset in [false, true] {
          try await withConnectedStreams(place) { near, far in
            if isReset { far.abort() } else { await far.close() }
            _ = try? await near.read()
            await calls[first](near)
            await calls[second](near)
          }
        }
      }
    }
  }

  @Test func streamThatIsClosedRightAfterItWasOpenedIsGone() async throws {
    try await withLoop { loop in
      try await TCPListener.withListener(on: .loopback(port: 0), loop: loop) { listener in
        for round in 0..<500 {
          let near = try await TCPStream.connect(to: listener.localAddress, loop: loop)
          if round % 2 == 0 { try await near.write("x") }
          if round % 3 == 0 { near.abort() } else { await near.close() }
          let far = try await listener.accept()
          far.abort()
        }
      }
      await expectNothingLeft(on: loop)
    }
  }

  @Test func resetCloseAndLoopShutdownMayMeet() async throws {
    for round in 0..<100 {
      try await withLoop { loop in
        let pairs = [try await connectedPair(on: loop), try await connectedPair(on: loop)]
        try await withThrowingTaskGroup { group in
          for (near, far) in pairs {
            group.addTask { try? await near.write(Pattern.bytes(1_000_000)) }
            group.addTask { _ = try? await near.read() }
            group.addTask { _ = try? await far.read() }
            group.addTask { await near.close() }
            group.addTask { far.abort() }
          }
          group.addTask {
            await loop.shutdown(gracePeriod: round % 2 == 0 ? .zero : .milliseconds(1))
          }
          try await group.waitForAll()
        }
      }
    }
  }
}
