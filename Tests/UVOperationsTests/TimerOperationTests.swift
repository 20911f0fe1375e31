import Foundation
import TestSupport
import Testing
import UV
import UVOperations

@Suite(.timeLimit(.minutes(1)))
struct TimerOperationTests {
  @Test(arguments: [Duration.microseconds(300), .milliseconds(1), .milliseconds(25)])
  func aTimerIsNeverEarly(delay: Duration) async throws {
    try await withLoop { loop in
      for _ in 0..<20 {
        let timer = TimerOperation(after: delay, on: loop)
        let start = SuspendingClock.now
        timer.start()
        try await timer.value
        #expect(.now - start >= delay)
      }
    }
  }

  @Test func timersFinishInTheOrderOfTheirTimes() async throws {
    try await withLoop { loop in
      let order = Guarded<[Int]>([])
      let timers = [60, 20, 40].map { TimerOperation(after: .milliseconds($0), on: loop) }
      // One start for all, so that the difference is that of the delays.
      try await loop.run {
        for (index, timer) in timers.enumerated() {
          timer.whenFinished { order.update { $0.append(index) } }
          timer.start()
        }
      }
      for timer in timers { try await timer.value }
      await eventually { order.value.count == 3 }
      #expect(order.value == [1, 2, 0])
    }
  }

  @Test(arguments: [
    Duration.zero, .nanoseconds(-1), .seconds(-5),
    Duration(secondsComponent: .min, attosecondsComponent: 0),
  ])
  func aTimeThatIsOverFinishesSoon(delay: Duration) async throws {
    try await withLoop { loop in
      let timer = TimerOperation(after: delay, on: loop)
      timer.start()
      try await timer.value
    }
  }

  @Test(arguments: [Duration.seconds(Int64.max), .seconds(1 << 40), .milliseconds(Int64.max)])
  func aHugeTimeNeitherOverflowsNorFinishes(delay: Duration) async throws {
    try await withLoop { loop in
      let timer = TimerOperation(after: delay, on: loop)
      timer.start()
      let other = TimerOperation(after: .milliseconds(5), on: loop)
      other.start()
      try await other.value
      #expect(timer.isExecuting && !timer.isFinished)
      timer.cancel()
      await #expect(throws: CancellationError.self) { try await timer.value }
    }
  }

  @Test func aCancelledTimerIsFinishedAndTakesNothing() async throws {
    try await withLoop { loop in
      let before = try await settled(loop)
      let timer = TimerOperation(after: .seconds(3_600), on: loop)
      OperationQueue().add(timer)
      await eventually { timer.isExecuting && loop.statistics.handles > before }
      timer.cancel()
      await timer.finished()
      #expect(timer.isFinished && timer.isCancelled && !timer.isExecuting)
      #expect(throws: CancellationError.self) { try timer.output }
      await eventually { loop.statistics.handles == before }
    }
  }

  @Test func aTimerThatIsCancelledBeforeItsStartNeverArms() async throws {
    try await withLoop { loop in
      let before = try await settled(loop)
      let timer = TimerOperation(after: .seconds(3_600), on: loop)
      timer.cancel()
      timer.start()
      await #expect(throws: CancellationError.self) { try await timer.value }
      let after = try await settled(loop)
      #expect(after == before)
    }
  }

  /// The loop's handles when it has done all that it was given.
  private func settled(_ loop: EventLoop) async throws -> Int {
    try await loop.run { loop.statistics.handles }
  }

  @Test func aTimeoutThatIsShorterFailsTheTimer() async throws {
    try await withLoop { loop in
      let timer = TimerOperation(after: .seconds(3_600), on: loop)
      timer.name = "pause"
      timer.timeout = .milliseconds(5)
      timer.start()
      let error = await timer.thrown as? OperationTimedOut
      #expect(error == OperationTimedOut(operation: "pause", timeout: .milliseconds(5)))
      #expect(!timer.isCancelled)
    }
  }

  @Test func cancellingAtTheMomentOfTheEndFinishesOnce() async throws {
    try await withLoop { loop in
      for round in 0..<300 {
        let timer = TimerOperation(after: .microseconds(Int64(round * 5)), on: loop)
        let finishes = Counter()
        timer.whenFinished { finishes.increment() }
        timer.start()
        for _ in 0..<round % 7 { await Task.yield() }
        timer.cancel()
        let error = await timer.thrown
        #expect(error == nil || error is CancellationError)
        await eventually { finishes.value > 0 }
        #expect(finishes.value == 1)
      }
    }
  }

  @Test func theEndOfTheLoopEndsATimer() async throws {
    try await withLoop { loop in
      let timer = TimerOperation(after: .seconds(3_600), on: loop)
      timer.start()
      try await loop.run {}  // Comes after the timer's start.
      await loop.shutdown()
      await #expect(throws: EventLoopClosed.self) { try await timer.value }
    }
  }

  @Test(arguments: [false, true])
  func aTimerOnALoopThatIsShutDownFails(inQueue: Bool) async throws {
    try await withLoop { loop in
      let timer = TimerOperation(after: .zero, on: loop)
      await loop.shutdown()
      if inQueue { OperationQueue().add(timer) } else { timer.start() }
      await #expect(throws: EventLoopClosed.self) { try await timer.value }
    }
  }
}
