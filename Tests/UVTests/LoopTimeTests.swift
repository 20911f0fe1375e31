import TestSupport
import Testing
import UV

@Suite(.timeLimit(.minutes(1))) struct LoopTimeTests {
  // MARK: Instants and clocks

  @Test func sleepingUntilAnInstantIsNeverTooShort() async throws {
    try await withLoop { loop in
      for milliseconds in [0, 1, 3, 10] {
        let instant = SuspendingClock.now.advanced(by: .milliseconds(milliseconds))
        try await loop.sleep(until: instant)
        #expect(SuspendingClock.now >= instant)
      }
      try await loop.sleep(until: .now.advanced(by: .seconds(-3_600)))
    }
  }

  @Test func codeThatTakesAClockSleepsOnTheLoop() async throws {
    func pause(_ clock: some Clock<Duration>) async throws -> Duration {
      try await clock.measure { try await clock.sleep(for: .milliseconds(5)) }
    }
    try await withLoop { loop in
      let time = try await pause(loop.clock)
      #expect(time >= .milliseconds(5))
      let sleep = Task { try await loop.clock.sleep(for: .seconds(3_600)) }
      await eventually("it sleeps by a timer of the loop") { loop.statistics.handles == 1 }
      sleep.cancel()
      await #expect(throws: CancellationError.self) { try await sleep.value }
      await expectNothingLeft(on: loop)
    }
  }

  // MARK: Ticks

  @Test func ticksAreNeverEarlyAndKeepToTheGrid() async throws {
    try await withLoop { loop in
      let interval = Duration.milliseconds(5)
      let start = SuspendingClock.now
      var last = 0
      for await tick in loop.every(interval) {
        #expect(tick > last)
        #expect(SuspendingClock.now - start >= interval * tick)
        last = tick
        if tick >= 20 { break }
      }
      await expectNothingLeft(on: loop)
    }
  }

  @Test func ticksThatNobodyTookAreLeftOut() async throws {
    try await withLoop { loop in
      var ticks: [Int] = []
      for await tick in loop.every(.milliseconds(2)) {
        ticks.append(tick)
        if ticks.count == 3 { break }
        try await loop.sleep(for: .milliseconds(7))
      }
      #expect(ticks.count == 3)
      #expect(zip(ticks, ticks.dropFirst()).allSatisfy { $1 - $0 > 3 }, "\(ticks)")
    }
  }

  @Test func cancellingEndsTheTicks() async throws {
    try await withLoop { loop in
      let count = Tally()
      let task = Task { for await _ in loop.every(.milliseconds(1)) { count.add() } }
      await eventually { count.value > 2 }
      task.cancel()
      await task.value
      await expectNothingLeft(on: loop)
    }
  }

  @Test func theEndOfTheLoopEndsTheTicks() async throws {
    let loop = try EventLoop()
    let task = Task { for await _ in loop.every(.seconds(3_600)) {} }
    await eventually { loop.statistics.handles == 1 }
    await loop.shutdown()
    await task.value
    for await _ in loop.every(.milliseconds(1)) { Issue.record("the loop has ended") }
  }

  @Test(arguments: [Duration.zero, .seconds(-1), .nanoseconds(1)])
  func anIntervalThatIsTooShortCountsAsAMillisecond(interval: Duration) async throws {
    try await withLoop { loop in
      let start = SuspendingClock.now
      for await tick in loop.every(interval) where tick >= 10 { break }
      #expect(SuspendingClock.now - start >= .milliseconds(10))
    }
  }

  // MARK: Timeouts

  @Test func aBodyThatIsInTimeReturnsItsValue() async throws {
    try await withLoop { loop in
      let value = try await withTimeout(.seconds(3_600), on: loop) { 42 }
      #expect(value == 42)
      await #expect(throws: Broken.self) {
        try await withTimeout(.seconds(3_600), on: loop) { throw Broken() }
      }
      await expectNothingLeft(on: loop)
    }
  }

  /// Nothing of it is `Sendable`: a variable, an object, and an actor's own.
  @Test func aBodyUsesWhatItsCallerCan() async throws {
    actor Counter {
      var count = 0
      func countInTime() async throws -> Int {
        try await withTimeout(.seconds(3_600)) {
          count += 1
          await Task.yield()
          count += 1
          return count
        }
      }
    }
    final class Note { var text = "" }
    let note = Note()
    var bytes: [UInt8] = []
    let same = try await withTimeout(.seconds(3_600)) {
      bytes.append(1)
      await Task.yield()
      note.text = "written"
      return note
    }
    #expect(same === note && note.text == "written" && bytes == [1])
    #expect(try await Counter().countInTime() == 2)
  }

  @Test(arguments: [Duration.milliseconds(5), .zero, .seconds(-1)])
  func aBodyThatIsLateIsCancelled(limit: Duration) async throws {
    try await withLoop { loop in
      let start = SuspendingClock.now
      let error = await #expect(throws: TimedOut.self) {
        try await withTimeout(limit, on: loop) { try await loop.sleep(for: .seconds(3_600)) }
      }
      #expect(error?.limit == limit && SuspendingClock.now - start >= limit)
      await expectNothingLeft(on: loop)
    }
  }

  @Test func aLateValueIsNotLost() async throws {
    try await withLoop { loop in
      let value = try await withTimeout(.milliseconds(1), on: loop) {
        try? await loop.sleep(for: .seconds(3_600))
        return 42
      }
      #expect(value == 42)
    }
  }

  @Test func cancellingTheCallerIsNoTimeout() async throws {
    try await withLoop { loop in
      let task = Task {
        try await withTimeout(.seconds(3_600), on: loop) {
          try await loop.sleep(for: .seconds(3_600))
        }
      }
      await eventually("both sleep") { loop.statistics.handles == 2 }
      task.cancel()
      await #expect(throws: CancellationError.self) { try await task.value }
      await expectNothingLeft(on: loop)
    }
  }

  @Test func theEndOfTheLoopEndsTheBody() async throws {
    let loop = try EventLoop()
    let task = Task {
      try await withTimeout(.seconds(3_600), on: loop) {
        try await EventLoop.shared.sleep(for: .seconds(3_600))
      }
    }
    await eventually { loop.statistics.handles == 1 }
    await loop.shutdown()
    await #expect(throws: EventLoopClosed.self) { try await task.value }
  }

  @Test func theEndOfTheTimeRacesWithTheBodyHarmlessly() async throws {
    try await withLoop { loop in
      for round in 0..<300 {
        let value = try? await withTimeout(.milliseconds(1), on: loop) {
          try await loop.sleep(for: .milliseconds(1))
          return round
        }
        #expect(value == nil || value == round)
      }
      await expectNothingLeft(on: loop)
    }
  }

  private struct Broken: Error {}
}
