import Locking
import TestSupport
import Testing
import UV

/// Timers that fire once.
@Suite(.timeLimit(.minutes(1))) struct TimerTests {
  enum Place: CaseIterable { case onTheLoop, elsewhere }

  @Test(arguments: Place.allCases)
  func noTimerIsEarly(_ place: Place) async throws {
    try await withLoop { loop in
      let early = Collected<UInt64>()
      let fired = Collected<Void>()
      let start = { @Sendable (delay: Int) in
        let due = monotonicNanoseconds() + UInt64(delay) * 1_000_000
        try loop.schedule(after: .milliseconds(delay)) {
          let now = monotonicNanoseconds()
          if now < due { early.append(due - now) }
          fired.append(())
        }
      }
      for _ in 0..<50 {
        for delay in 1...20 {
          switch place {
          case .onTheLoop: _ = try await loop.run { try start(delay) }
          case .elsewhere: _ = try start(delay)
          }
        }
      }
      await fired.waitUntil(count: 1_000)
      #expect(early.values == [])
    }
  }

  @Test func aTimerMadeAfterALongCallbackIsNotEarly() async throws {
    try await withLoop { loop in
      let due = try await loop.run {
        keepBusy(for: .milliseconds(100))  // libuv's clock stands still meanwhile.
        return try Fired.schedule(after: .milliseconds(60), on: loop)
      }
      await due.wait()
      #expect(due.wasEarly == false)
    }
  }

  @Test(arguments: Place.allCases)
  func equalDelaysFireInTheOrderOfTheCalls(_ place: Place) async throws {
    try await withLoop { loop in
      // A delay so short that it passes while the loop is still taking the calls in.
      for delay in [Duration.milliseconds(5)] + [Duration](repeating: .microseconds(300), count: 20)
      {
        let order = Collected<Int>()
        let start = { @Sendable in
          for number in 0..<1_000 {
            try loop.schedule(after: delay) { order.append(number) }
          }
        }
        switch place {
        case .onTheLoop: try await loop.run { try start() }
        case .elsewhere: try start()
        }
        #expect(await order.waitUntil(count: 1_000) == Array(0..<1_000))
      }
    }
  }

  @Test(arguments: [
    Duration.zero, .seconds(-1), .seconds(Int64.min), .nanoseconds(1), .nanoseconds(-1),
  ])
  func aDelayOfNothingFiresSoonAndNotInsideTheCall(_ delay: Duration) async throws {
    try await withLoop { loop in
      let order = Collected<Int>()
      try await loop.run {
        try loop.schedule(after: delay) { order.append(2) }
        order.append(1)
      }
      #expect(await order.waitUntil(count: 2) == [1, 2])
    }
  }

  @Test(arguments: [
    Duration.seconds(Int64.max), .seconds(86_400 * 30), .seconds(9_223_372_036),
    .seconds(9_223_372_037),
  ])
  func aVeryLongDelayNeitherTrapsNorFires(_ delay: Duration) async throws {
    try await withLoop { loop in
      let fired = Event()
      let timer = try loop.schedule(after: delay) { fired.set() }
      let repeating = try loop.schedule(every: delay) { _ in fired.set() }
      let sleeper = Task { try await loop.sleep(for: delay) }
      for _ in 0..<5 { try await loop.sleep(for: .milliseconds(2)) }
      #expect(!fired.isSet)
      await eventually("only the three wait") { loop.statistics.handles == 3 }
      timer.cancel()
      repeating.cancel()
      sleeper.cancel()
      await #expect(throws: CancellationError.self) { try await sleeper.value }
    }
  }

  @Test func aCancelledTimerDoesNotFire() async throws {
    try await withLoop { loop in
      let fired = Event()
      try await loop.run {
        let timer = try loop.schedule(after: .milliseconds(1)) { fired.set() }
        keepBusy(for: .milliseconds(3))
        timer.cancel()
        timer.cancel()
      }
      try await loop.sleep(for: .milliseconds(5))
      #expect(!fired.isSet)
      await eventually("no handle is left") { loop.statistics.handles == 0 }
    }
  }

  @Test func callsOnTheLoopAreNotUndoneByEarlierOnesThatAreStillQueued() async throws {
    try await withLoop { loop in
      let tooLate = Event()
      let inTime = Event()
      try await loop.run {
        let timers = Collected<LoopTimer>()
        waitForAnotherThread {
          timers.append(try! loop.schedule(after: .zero) { tooLate.set() })
          timers.append(try! loop.schedule(after: .seconds(3_600)) { inTime.set() })
        }
        timers.values[0].cancel()
        timers.values[1].reschedule(after: .milliseconds(1))
      }
      await inTime.wait()
      #expect(!tooLate.isSet)
      await eventually("no handle is left") { loop.statistics.handles == 0 }
    }
  }

  @Test func aTimerMayCancelASiblingThatIsDueInTheSameTurn() async throws {
    try await withLoop { loop in
      let fired = Collected<String>()
      let sibling = Box<LoopTimer>()
      try await loop.run {
        try loop.schedule(after: .milliseconds(1)) {
          fired.append("first")
          sibling.value?.cancel()
        }
        sibling.value = try loop.schedule(after: .milliseconds(1)) { fired.append("second") }
        keepBusy(for: .milliseconds(5))
      }
      try await loop.sleep(for: .milliseconds(10))
      #expect(fired.values == ["first"])
    }
  }

  enum OwnAct: CaseIterable { case cancel, drop, cancelAndDrop, rescheduleAndCancel }

  @Test(arguments: OwnAct.allCases)
  func aTimerMayActOnItselfInItsCallback(_ act: OwnAct) async throws {
    try await withLoop { loop in
      let fired = Collected<Void>()
      let own = Box<LoopTimer>()
      try await loop.run {
        own.value = try loop.schedule(after: .milliseconds(1)) {
          fired.append(())
          if act == .rescheduleAndCancel { own.value?.reschedule(after: .milliseconds(1)) }
          if act != .drop { own.value?.cancel() }
          if act != .cancel { own.value = nil }
        }
      }
      await fired.waitUntil(count: 1)
      try await loop.sleep(for: .milliseconds(5))
      #expect(fired.count == 1)
      own.value = nil
    }
  }

  @Test func aTimerMayRescheduleItselfInItsCallback() async throws {
    try await withLoop { loop in
      let fired = Collected<UInt64>()
      let own = Box<LoopTimer>()
      let start = monotonicNanoseconds()
      try await loop.run {
        own.value = try loop.schedule(after: .milliseconds(2)) {
          fired.append(monotonicNanoseconds() - start)
          if fired.count < 5 { own.value?.reschedule(after: .milliseconds(2)) }
        }
      }
      let times = await fired.waitUntil(count: 5)
      #expect(zip(times, 1...).allSatisfy { $0 >= UInt64($1) * 2_000_000 })
      own.value = nil
    }
  }

  @Test func reschedulingReplacesTheOldTime() async throws {
    try await withLoop { loop in
      let start = monotonicNanoseconds()
      let fired = Collected<UInt64>()
      let timer = try loop.schedule(after: .milliseconds(1)) {
        fired.append(monotonicNanoseconds() - start)
      }
      timer.reschedule(after: .seconds(60))
      timer.reschedule(after: .milliseconds(20))
      // It may have fired once before the first call reached the loop.
      await eventually("it fires at the new time") { (fired.values.last ?? 0) >= 20_000_000 }
      timer.reschedule(after: .milliseconds(1))  // And again, after it has fired.
      let count = fired.count
      await fired.waitUntil(count: count + 1)
    }
  }

  @Test func aWaitingTimerNeedNotBeHeldAndAFiredOneIsGone() async throws {
    try await withLoop { loop in
      let fired = Event()
      try loop.schedule(after: .milliseconds(5)) { fired.set() }
      await fired.wait()
      await eventually("its handle is closed") { loop.statistics.handles == 0 }
    }
  }

  @Test func anyThreadMayCancelAndReschedule() async throws {
    try await withLoop { loop in
      let timers = try (0..<50).map { _ in try loop.schedule(after: .milliseconds(1)) {} }
      await onThreads(8) { thread in
        for timer in timers {
          for _ in 0..<20 {
            thread.isMultiple(of: 2) ? timer.cancel() : timer.reschedule(after: .milliseconds(1))
          }
        }
      }
      for timer in timers { timer.cancel() }
    }
  }
}

/// A value that callbacks share with a test.
final class Box<Value: Sendable>: Sendable {
  private let stored = Lock<Value?>(nil)

  var value: Value? {
    get { stored.withLock { $0 } }
    set {
      // The old value goes when the lock is free: its end may come back here.
      let old = stored.withLock { stored in
        let old = stored
        stored = newValue
        return old
      }
      withExtendedLifetime(old) {}
    }
  }
}

/// Whether and when a timer fired.
final class Fired: Sendable {
  private let early = Box<Bool>()
  private let event = Event()

  static func schedule(after delay: Duration, on loop: EventLoop) throws -> Fired {
    let fired = Fired()
    let due = monotonicNanoseconds() + delay.wholeNanoseconds
    try loop.schedule(after: delay) {
      fired.early.value = monotonicNanoseconds() < due
      fired.event.set()
    }
    return fired
  }

  var wasEarly: Bool? { early.value }

  func wait() async { await event.wait() }
}
