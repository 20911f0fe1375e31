import TestSupport
import Testing
import UV

/// How time limits end, with their stream or its loop.
@Suite(.timeLimit(.minutes(1))) struct TCPTimeoutEndTests {
  /// Closing has a limit of its own, which is longer.
  @Test(arguments: Place.allCases)
  func closedStreamHasItsTimeToSend(_ place: Place) async throws {
    let limit = Duration.seconds(3)
    try await withTimeouts(write: limit, idle: limit, place) {
      near, far in
      let (held, count) = try await near.fill()
      let close = Task { await near.close() }
      try await near.loop.sleep(for: .milliseconds(3_300))
      #expect(try await far.readPattern() == count)
      try await held.value
      await close.value
    }
  }

  @Test(arguments: Place.allCases)
  func timeoutsThatAreFarAwayNeverCome(_ place: Place) async throws {
    for timeout in [Duration.seconds(Int64.max), .seconds(1_000_000_000), .seconds(100)] {
      try await withTimeouts(read: timeout, write: timeout, idle: timeout, place) { near, far in
        let reading = Task { try await near.read() }
        let writing = Task { try await near.write(Pattern.bytes(4_194_304)) }
        for _ in 0..<5 { try await near.loop.someTurns() }
        #expect(try await far.readPattern(4_194_304) == 4_194_304)
        try await writing.value
        try await far.write("x")
        #expect(try await reading.value == [UInt8(ascii: "x")])
      }
    }
  }

  @Test func cancellationIsNotTakenForATimeout() async throws {
    try await withTimeouts(read: .milliseconds(1)) { near, far in
      for _ in 0..<200 {
        let reading = Task { try await near.read() }
        let canceller = Task {
          await Task.yield()
          reading.cancel()
        }
        do {
          _ = try await reading.value
          Issue.record("nothing was sent")
        } catch is CancellationError {
        } catch let error as IOError {
          #expect(error.code == .timedOut)
        }
        await canceller.value
      }
      try await far.write("x")
      while (try? await near.read()) == nil {}
    }
  }

  @Test func silenceEndsTheGraceOfAShutdown() async throws {
    try await withLoop { loop in
      var options = TCPOptions()
      options.idleTimeout = .milliseconds(200)
      let (near, far) = try await connectedPair(on: loop, options: options)
      let reading = Task(executorPreference: loop) { try await near.read() }
      try await loop.someTurns()
      await loop.shutdown(gracePeriod: .seconds(1_000))
      await #expect(throws: IOError.self) { try await reading.value }
      withExtendedLifetime(far) {}
    }
  }

  @Test func shutdownEndsStreamsBeforeTheirTimeouts() async throws {
    try await withLoop { loop in
      var options = TCPOptions()
      options.readTimeout = .seconds(1_000)
      options.idleTimeout = .seconds(1_000)
      let (near, far) = try await connectedPair(on: loop, options: options)
      let reading = Task(executorPreference: loop) { try await near.read() }
      try await loop.someTurns()
      await loop.shutdown()
      await #expect(throws: EventLoopClosed.self) { try await reading.value }
      withExtendedLifetime(far) {}
    }
  }

  @Test func droppedStreamsLeaveNoTimers() async throws {
    await #expect(processExitsWith: .success) {
      Report.setHandler { _ in }
      try await withLoop { loop in
        var options = TCPOptions()
        options.readTimeout = .seconds(1_000)
        options.writeTimeout = .seconds(1_000)
        options.idleTimeout = .seconds(1_000)
        for _ in 0..<100 {
          let (near, far) = try await connectedPair(on: loop, options: options)
          try await near.write("x")
          _ = try await far.read()
        }
        await expectNothingLeft(on: loop)
      }
    }
  }
}
