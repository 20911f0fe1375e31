import Foundation
import TestSupport
import Testing
import UV
import UVOperations

/// Timer operations that tick, or have a deadline.
@Suite(.timeLimit(.minutes(1)))
struct TickTests {
  @Test func ticksAreCountedNeverEarlyAndThenTheOperationFinishes() async throws {
    try await withLoop { loop in
      let interval = Duration.milliseconds(5)
      let times = Collected<(Int, Duration)>()
      let start = Guarded(SuspendingClock.now)
      let ticks = TimerOperation(every: interval, count: 10, on: loop) { number in
        times.append((number, .now - start.value))
      }
      start.update { $0 = .now }
      ticks.start()
      try await ticks.value
      #expect(times.values.map(\.0) == Array(1...10))
      #expect(times.values.allSatisfy { $0.1 >= interval * $0.0 })
    }
  }

  @Test func aTickNeedNotAskForItsNumber() async throws {
    try await withLoop { loop in
      let calls = Counter()
      let ticks = TimerOperation(every: .milliseconds(1), count: 3, on: loop) { calls.increment() }
      ticks.start()
      try await ticks.value
      #expect(calls.value == 3)
    }
  }

  @Test(arguments: [1, 0])
  func aCountMayBeOneOrNone(count: Int) async throws {
    try await withLoop { loop in
      let calls = Counter()
      let ticks = TimerOperation(every: .milliseconds(1), count: count, on: loop) { _ in
        calls.increment()
      }
      try await OperationQueue().run(ticks)
      #expect(calls.value == count)
    }
  }

  @Test func aNegativeCountTraps() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      _ = TimerOperation(every: .seconds(1), count: -1) { _ in }
    }
    let message = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
    #expect(message.contains("-1 times"))
  }

  @Test(arguments: [Duration.zero, .seconds(-1), .nanoseconds(1)])
  func anIntervalHasAtLeastAMillisecond(interval: Duration) async throws {
    try await withLoop { loop in
      let start = SuspendingClock.now
      try await OperationQueue().run(TimerOperation(every: interval, count: 5, on: loop) { _ in })
      #expect(.now - start >= .milliseconds(5))
    }
  }

  @Test(arguments: [false, true])
  func cancellingHalfWayFinishesAndTicksNoMore(insideATick: Bool) async throws {
    try await withLoop { loop in
      let third = Event()
      let calls = Counter()
      let queue = OperationQueue()
      let box = Guarded<TimerOperation?>(nil)
      let ticks = TimerOperation(every: .milliseconds(1), on: loop) { number in
        calls.increment()
        guard number == 3 else { return }
        if insideATick { box.value?.cancel() }
        third.set()
      }
      box.update { $0 = ticks }
      queue.add(ticks)
      await third.wait()
      ticks.cancel()
      #expect(await ticks.thrown is CancellationError)
      box.update { $0 = nil }
      await queue.waitUntilEmpty()
      let count = calls.value
      try await loop.sleep(for: .milliseconds(5))  // Long enough for ticks, if there were any.
      #expect(calls.value <= count + (insideATick ? 0 : 1), "one may have been under way")
    }
  }

  @Test func whatATickThrowsFailsTheOperation() async throws {
    try await withLoop { loop in
      let ticks = TimerOperation(every: .milliseconds(1), count: 5, on: loop) { number in
        if number == 2 { throw Broken() }
      }
      ticks.start()
      #expect(await ticks.thrown is Broken)
    }
  }

  @Test func ticksRunOnTheLoopThreadOnlyIfTheOperationStartedThere() async throws {
    try await withLoop { loop in
      let places = Collected<Bool>()
      for startsOnLoop in [true, false] {
        let ticks = TimerOperation(every: .milliseconds(1), count: 3, on: loop) { _ in
          places.append(loop.isCurrent)
        }
        if startsOnLoop { try await loop.run { ticks.start() } } else { ticks.start() }
        try await ticks.value
      }
      #expect(places.values == [true, true, true, false, false, false])
    }
  }

  @Test func aSlowTickNeverMeetsTheNextAndTheLastHasReturnedAtTheEnd() async throws {
    try await withLoop { loop in
      let running = Guarded(0)
      let most = Guarded(0)
      let ticks = TimerOperation(every: .milliseconds(1), count: 4, on: loop) { _ in
        running.update { $0 += 1 }
        most.update { $0 = max($0, running.value) }
        keepBusy(for: .milliseconds(5))  // Five intervals of work.
        running.update { $0 -= 1 }
      }
      ticks.whenFinished { _ in #expect(running.value == 0) }
      try await OperationQueue().run(ticks)
      #expect(most.value == 1)
    }
  }

  @Test func theTimeoutEndsTicksWithoutACount() async throws {
    try await withLoop { loop in
      let ticks = TimerOperation(every: .milliseconds(1), on: loop) { _ in }
      ticks.timeout = .milliseconds(20)
      ticks.start()
      #expect(await ticks.thrown is OperationTimedOut)
    }
  }

  @Test func theEndOfTheLoopEndsTicks() async throws {
    let loop = try EventLoop()
    let first = Event()
    let ticks = TimerOperation(every: .milliseconds(1), on: loop) { _ in first.set() }
    ticks.start()
    await first.wait()
    await loop.shutdown()
    #expect(await ticks.thrown is EventLoopClosed)
  }

  /// Its timer goes too, and with it the operation.
  @Test(arguments: [false, true])
  func finishingByHandEndsTheTimer(insideATick: Bool) async throws {
    try await withLoop { loop in
      weak var timer: TimerOperation?
      do {
        let box = Guarded<TimerOperation?>(nil)
        let made =
          insideATick
          ? TimerOperation(every: .milliseconds(1), on: loop) { if $0 == 3 { box.value?.finish() } }
          : TimerOperation(after: .seconds(3600), on: loop)
        timer = made
        box.update { $0 = made }
        made.start()
        if !insideATick { made.finish() }
        try await made.value
        box.update { $0 = nil }
      }
      await eventually { timer == nil && loop.statistics.handles == 0 }
    }
  }

  @Test func theHandlerIsReleasedAtTheEnd() async throws {
    final class Marker: Sendable {}
    weak var marker: Marker?
    try await withLoop { loop in
      let ticks = {
        let held = Marker()
        marker = held
        return TimerOperation(every: .milliseconds(1), count: 2, on: loop) { _ in _ = held }
      }()
      try await OperationQueue().run(ticks)
      await eventually { marker == nil }
      #expect(ticks.isFinished)
    }
  }

  @Test func aDeadlineIsNeverEarlyAndCountsFromNowNotFromTheStart() async throws {
    try await withLoop { loop in
      let deadline = ContinuousClock.now + .milliseconds(20)
      let first = TimerOperation(after: .milliseconds(10), on: loop)
      let second = TimerOperation(until: deadline, on: loop)
      second.addDependency(first)
      OperationQueue().add(first, second)
      try await second.value
      #expect(.now >= deadline)
    }
  }

  @Test func aDeadlineThatHasPassedFinishesSoon() async throws {
    try await withLoop { loop in
      try await OperationQueue().run(TimerOperation(until: .now - .seconds(5), on: loop))
    }
  }
}
