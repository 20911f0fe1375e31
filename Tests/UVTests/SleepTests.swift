import TestSupport
import Testing
import UV

@Suite(.timeLimit(.minutes(1))) struct SleepTests {
  @Test(arguments: [0, 1, 2, 7, 20])
  func sleepIsNeverTooShort(milliseconds: Int) async throws {
    try await withLoop { loop in
      for _ in 0..<10 {
        let start = monotonicNanoseconds()
        try await loop.sleep(for: .milliseconds(milliseconds))
        #expect(monotonicNanoseconds() - start >= UInt64(milliseconds) * 1_000_000)
      }
    }
  }

  @Test func aNegativeSleepReturns() async throws {
    try await withLoop { loop in
      try await loop.sleep(for: .seconds(-1))
      try await loop.sleep(for: .seconds(Int64.min))
    }
  }

  @Test(arguments: [true, false])
  func aCancelledSleepEndsAtOnce(onTheLoop: Bool) async throws {
    try await withLoop { loop in
      let task = Task(executorPreference: onTheLoop ? loop : nil) {
        try await loop.sleep(for: .seconds(3_600))
      }
      await eventually("it sleeps") { loop.statistics.handles == 1 }
      task.cancel()
      await #expect(throws: CancellationError.self) { try await task.value }
      await eventually("its timer is closed") { loop.statistics.handles == 0 }
    }
  }

  @Test(arguments: [true, false])
  func aTaskCancelledBeforeDoesNotSleep(onTheLoop: Bool) async throws {
    try await withLoop { loop in
      let task = Task(executorPreference: onTheLoop ? loop : nil) {
        withUnsafeCurrentTask { $0?.cancel() }
        try await loop.sleep(for: .seconds(3_600))
      }
      await #expect(throws: CancellationError.self) { try await task.value }
    }
  }

  @Test func manyMaySleepAtOnce() async throws {
    try await withLoop { loop in
      try await withThrowingTaskGroup(of: Void.self) { group in
        for number in 0..<2_000 {
          group.addTask { try await loop.sleep(for: .milliseconds(number % 20)) }
        }
        try await group.waitForAll()
      }
      await eventually("no timer is left") { loop.statistics.handles == 0 }
    }
  }

  @Test func cancellingRacesWithWakingUpHarmlessly() async throws {
    try await withLoop { loop in
      for number in 0..<2_000 {
        let task = Task { try await loop.sleep(for: .microseconds(number % 1_500)) }
        if number.isMultiple(of: 2) { await Task.yield() }
        task.cancel()
        do { try await task.value } catch { #expect(error is CancellationError) }
      }
    }
  }

  @Test func aSleepBegunDuringAShutdownIsRefused() async throws {
    for _ in 0..<100 {
      let loop = try EventLoop()
      let tasks = (0..<4).map { _ in
        Task {
          while true { try await loop.sleep(for: .zero) }
        }
      }
      await loop.shutdown()
      for task in tasks { await #expect(throws: EventLoopClosed.self) { try await task.value } }
    }
  }
}
