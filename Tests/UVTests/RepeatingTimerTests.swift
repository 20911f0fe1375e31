import TestSupport
import Testing
import UV

/// Timers that fire again and again. Times are compared with the grid, never with a limit: the machine may be busy.
@Suite(.timeLimit(.minutes(1))) struct RepeatingTimerTests {
  private static let interval: UInt64 = 10_000_000

  @Test func noTickIsBeforeItsPlaceOnTheGrid() async throws {
    try await withLoop { loop in
      let ticks = try await Ticks.start(on: loop)
      let times = await ticks.wait(count: 30)
      for (number, time) in zip(1..., times) {
        #expect(time >= ticks.before + UInt64(number) * Self.interval)
      }
    }
  }

  @Test func aBodyNeedNotAskForTheTimer() async throws {
    try await withLoop { loop in
      let ticks = Collected<Void>()
      let timer = try loop.schedule(every: .milliseconds(1)) { ticks.append(()) }
      await ticks.waitUntil(count: 3)
      timer.cancel()
    }
  }

  @Test func missedTicksMergeIntoOne() async throws {
    try await withLoop { loop in
      let ticks = try await Ticks.start(on: loop) { number in
        if number == 1 { keepBusy(for: .milliseconds(200)) }
      }
      let times = await ticks.wait(count: 10)
      // Made up, the twenty that were missed would come at once. Two may share a point of the grid when the machine was busy.
      let points = Set(times.dropFirst().map { ($0 - ticks.before) / Self.interval })
      #expect(points.count >= 5)
    }
  }

  @Test func aLateTickDoesNotMoveTheGrid() async throws {
    try await withLoop { loop in
      let ticks = try await Ticks.start(on: loop) { number in
        if number.isMultiple(of: 2) { keepBusy(for: .milliseconds(14)) }
      }
      // With a grid that moved, two ticks would never be less than an interval apart.
      await eventually("a tick comes early after a late one") {
        zip(ticks.times, ticks.times.dropFirst()).contains { $1 - $0 < Self.interval }
      }
    }
  }

  @Test(arguments: [Duration.zero, .nanoseconds(1), .seconds(-5)])
  func anIntervalBelowAMillisecondCountsAsOne(_ interval: Duration) async throws {
    try await withLoop { loop in
      let start = monotonicNanoseconds()
      let times = Collected<UInt64>()
      try loop.schedule(every: interval) { timer in
        times.append(monotonicNanoseconds() - start)
        if times.count == 20 { timer.cancel() }
      }
      #expect(zip(await times.waitUntil(count: 20), 1...).allSatisfy { $0 >= $1 * 1_000_000 })
    }
  }

  @Test func theGridOfATimerThatStartsAtOnceBeginsWithTheCall() async throws {
    try await withLoop { loop in
      // Calls at all points of a millisecond: libuv's clock knows its start alone.
      for _ in 0..<50 {
        let start = monotonicNanoseconds()
        let times = Collected<UInt64>()
        try loop.schedule(every: .milliseconds(1), after: .zero) { timer in
          times.append(monotonicNanoseconds() - start)
          if times.count == 3 { timer.cancel() }
        }
        #expect(zip(await times.waitUntil(count: 3), 0...).allSatisfy { $0 >= $1 * 1_000_000 })
      }
    }
  }

  @Test func theFirstTickMayHaveADelayOfItsOwn() async throws {
    try await withLoop { loop in
      let fired = Event()
      try loop.schedule(every: .seconds(3_600), after: .zero) { timer in
        fired.set()
        timer.cancel()
      }
      await fired.wait()
    }
  }

  @Test func cancellingInsideATickEndsTheTicks() async throws {
    try await withLoop { loop in
      let ticks = Collected<Void>()
      try loop.schedule(every: .milliseconds(1)) { timer in
        ticks.append(())
        if ticks.count == 3 { timer.cancel() }
      }
      await ticks.waitUntil(count: 3)
      await eventually("its handle is closed") { loop.statistics.handles == 0 }
      #expect(ticks.count == 3)
    }
  }

  @Test func reschedulingMovesTheGrid() async throws {
    try await withLoop { loop in
      let times = Collected<UInt64>()
      let moved = Box<UInt64>()
      let timer = try await loop.run {
        try loop.schedule(every: .milliseconds(5)) { timer in
          times.append(monotonicNanoseconds())
          if times.count == 2 {
            moved.value = monotonicNanoseconds()
            timer.reschedule(after: .milliseconds(30))
          }
        }
      }
      let seen = await times.waitUntil(count: 5)
      timer.cancel()
      for (number, time) in zip(UInt64(0)..., seen.dropFirst(2)) {
        #expect(time >= moved.value! + 30_000_000 + number * 5_000_000)
      }
    }
  }

  @Test func aRepeatingTimerThatNobodyHoldsGoesOnUntilTheLoopEnds() async throws {
    let loop = try EventLoop()
    let ticks = Collected<Void>()
    try loop.schedule(every: .milliseconds(1)) { _ in ticks.append(()) }
    await ticks.waitUntil(count: 10)
    await loop.shutdown()
    let count = ticks.count
    #expect(loop.statistics.handles == 0)
    #expect(ticks.count == count)
  }
}

/// The ticks of a timer of ten milliseconds, and between which times it was made.
private final class Ticks: Sendable {
  let before: UInt64
  private let made = Box<UInt64>()
  private let timer = Box<LoopTimer>()
  private let collected = Collected<UInt64>()

  private init() { before = monotonicNanoseconds() }

  static func start(
    on loop: EventLoop, _ body: @escaping @Sendable (Int) -> Void = { _ in }
  ) async throws -> Ticks {
    try await loop.run {
      let ticks = Ticks()
      ticks.timer.value = try loop.schedule(every: .milliseconds(10)) {
        [collected = ticks.collected] _ in
        collected.append(monotonicNanoseconds())
        body(collected.count)
      }
      ticks.made.value = monotonicNanoseconds()
      return ticks
    }
  }

  deinit { timer.value?.cancel() }

  var after: UInt64 { made.value! }

  var times: [UInt64] { collected.values }

  func wait(count: Int) async -> [UInt64] { await collected.waitUntil(count: count) }
}
