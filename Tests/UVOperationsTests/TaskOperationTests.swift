import Foundation
import TestSupport
import Testing
import UV
import UVOperations

/// An `async` closure as an operation.
@Suite(.timeLimit(.minutes(1))) struct TaskOperationTests {
  @Test func itRunsOnItsLoopAndEndsWithWhatItReturns() async throws {
    try await withLoop { loop in
      let task = TaskOperation(on: loop) { loop.isCurrent ? 7 : 0 }
      let answer = try await OperationQueue().run(task)
      #expect(answer == 7)
      let failing = TaskOperation<Int>(on: loop) { throw Broken() }
      failing.start()
      #expect(await failing.thrown is Broken)
    }
  }

  @Test func cancellingCancelsTheTaskAndWaitsForIt() async throws {
    try await withLoop { loop in
      let hasCleanedUp = Guarded(false)
      let task = TaskOperation(on: loop) {
        do {
          try await loop.sleep(for: .seconds(3_600))
        } catch {
          for _ in 0..<10 { await Task.yield() }
          hasCleanedUp.update { $0 = true }
          throw error
        }
      }
      task.start()
      await eventually("it sleeps") { loop.statistics.handles == 1 }
      task.cancel()
      #expect(await task.thrown is CancellationError)
      #expect(hasCleanedUp.value)
    }
  }

  @Test func aTimeoutIsToldFromACancellation() async throws {
    try await withLoop { loop in
      let task = TaskOperation(on: loop) { try await loop.sleep(for: .seconds(3_600)) }
      task.timeout = .milliseconds(5)
      task.start()
      #expect(await task.thrown is OperationTimedOut)
    }
  }

  @Test func oneThatIgnoresACancellationKeepsItsResult() async throws {
    try await withLoop { loop in
      let isRunning = Event()
      let mayEnd = Event()
      let task = TaskOperation(on: loop) {
        isRunning.set()
        while !mayEnd.isSet { await Task.yield() }
        return 1
      }
      task.start()
      await isRunning.wait()
      task.cancel()
      mayEnd.set()
      let answer = try await task.value
      #expect(answer == 1)
    }
  }

  @Test func oneThatIsCancelledBeforeItsStartNeverRuns() async throws {
    try await withLoop { loop in
      let runs = Counter()
      let task = TaskOperation(on: loop) { runs.increment() }
      task.cancel()
      task.start()
      #expect(await task.thrown is CancellationError)
      #expect(runs.value == 0)
    }
  }

  @Test func aShutdownEndsItByWhatItWaitsFor() async throws {
    let loop = try EventLoop()
    let task = TaskOperation(on: loop) { try await loop.sleep(for: .seconds(3_600)) }
    task.start()
    await eventually("it sleeps") { loop.statistics.handles == 1 }
    await loop.shutdown()
    #expect(await task.thrown is EventLoopClosed)
    let late = TaskOperation(on: loop) {}
    late.start()
    #expect(await late.thrown is EventLoopClosed)
  }

  @Test func theClosureIsReleasedWhenItHasRun() async throws {
    try await withLoop { loop in
      let task = TaskOperation(on: loop) {}
      weak var witness: Counter?
      let other: TaskOperation<Void>
      do {
        let held = Counter()
        witness = held
        other = TaskOperation(on: loop) { held.increment() }
      }
      OperationQueue().add(task, other)
      try await other.value
      await expectGone("the closure's counter") { witness != nil }
    }
  }
}
