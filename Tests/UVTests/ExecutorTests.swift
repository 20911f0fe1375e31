import TestSupport
import Testing
import UV

/// Tasks and actors whose executor is a loop.
@Suite(.timeLimit(.minutes(1))) struct ExecutorTests {
  @Test func aTaskThatPrefersALoopRunsOnItsThread() async throws {
    try await withLoop { loop in
      let places = await Task(executorPreference: loop) {
        var places = [loop.isCurrent]
        for _ in 0..<100 {
          await Task.yield()
          places.append(loop.isCurrent)
        }
        return places
      }.value
      #expect(places.allSatisfy { $0 })
    }
  }

  @Test func aTaskComesBackToItsLoopAfterWaitingForAnother() async throws {
    try await withLoop { loop in
      try await withLoop { other in
        let cameBack = try await Task(executorPreference: loop) {
          let wasThere = try await other.run { other.isCurrent && !loop.isCurrent }
          try await other.sleep(for: .milliseconds(1))
          return wasThere && loop.isCurrent
        }.value
        #expect(cameBack)
      }
    }
  }

  @Test func childTasksRunOnTheLoopToo() async throws {
    try await withLoop { loop in
      let places = await withTaskExecutorPreference(loop) {
        await withTaskGroup(of: Bool.self) { group in
          for _ in 0..<100 { group.addTask { loop.isCurrent } }
          return await group.reduce(into: []) { $0.append($1) }
        }
      }
      #expect(places == Array(repeating: true, count: 100))
    }
  }

  @Test func resumingATaskCostsOneJob() async throws {
    try await withLoop { loop in
      let before = loop.statistics.jobsRun
      try await Task(executorPreference: loop) {
        for _ in 0..<1_000 {
          try await withUnsafeThrowingContinuation {
            (resumed: UnsafeContinuation<Void, any Error>) in
            do { try loop.execute { resumed.resume() } } catch { resumed.resume(throwing: error) }
          }
        }
      }.value
      try await loop.run {}
      // Each time what resumes it is another.
      #expect(loop.statistics.jobsRun - before < 2_500)
    }
  }

  @Test func manyTasksAllFinish() async throws {
    try await withLoop { loop in
      let sum = await withTaskGroup(of: Int.self) { group in
        for number in 0..<10_000 {
          group.addTask(executorPreference: loop) {
            await Task.yield()
            return number
          }
        }
        return await group.reduce(0, +)
      }
      #expect(sum == 10_000 * 9_999 / 2)
    }
  }

  @Test func anActorOnALoopRunsOnItsThread() async throws {
    try await withLoop { loop in
      let counter = LoopCounter(on: loop)
      await withTaskGroup(of: Void.self) { group in
        for _ in 0..<100 { group.addTask { await counter.increment() } }
      }
      #expect(await counter.count == 100)
      #expect(await counter.strayCalls == 0)
    }
  }

  @Test func plainCodeOnTheLoopThreadMayAssumeTheActorsIsolation() async throws {
    try await withLoop { loop in
      let counter = LoopCounter(on: loop)
      try await loop.run { counter.assumeIsolated { $0.increment() } }
      let fired = Event()
      try loop.schedule(after: .milliseconds(1)) {
        counter.assumeIsolated { $0.increment() }
        fired.set()
      }
      await fired.wait()
      #expect(await counter.count == 2)
    }
  }

  @Test func codeElsewhereMayNotAssumeTheActorsIsolation() async throws {
    await #expect(processExitsWith: .failure) {
      let counter = LoopCounter(on: try EventLoop())
      let assume = { counter.assumeIsolated { $0.increment() } }
      assume()
    }
  }

  @Test func anActorsJobsAreOneAtATimeWhereverTheyComeFrom() async throws {
    try await withLoop { loop in
      let counter = LoopCounter(on: loop)
      await onThreads(8) { _ in
        for _ in 0..<500 { Task { await counter.increment() } }
      }
      await eventually("all have run") { counter.finished.count == 4_000 }
      #expect(await counter.count == 4_000)
      #expect(await counter.strayCalls == 0)
    }
  }
}

/// An actor that lives on a loop.
actor LoopCounter {
  nonisolated let loop: EventLoop
  nonisolated let finished = Collected<Void>()
  private(set) var count = 0
  private(set) var strayCalls = 0

  init(on loop: EventLoop) { self.loop = loop }

  nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

  func increment() {
    count += 1
    if !loop.isCurrent { strayCalls += 1 }
    finished.append(())
  }
}
