import Locking
import TestSupport
import Testing
import UV

/// The way into a loop for closures: `execute` and `run`.
@Suite(.timeLimit(.minutes(1))) struct ExecuteTests {
  @Test func runReturnsTheValueOfItsBody() async throws {
    try await withLoop { loop in
      let value = try await loop.run { 42 }
      #expect(value == 42)
    }
  }

  @Test func runThrowsTheErrorOfItsBody() async throws {
    struct Refused: Error {}
    try await withLoop { loop in
      await #expect(throws: Refused.self) { try await loop.run { throw Refused() } }
      try await loop.run {}  // The loop is none the worse for it.
    }
  }

  @Test func runOnTheLoopThreadRunsAtOnce() async throws {
    try await withLoop { loop in
      let order = Collected<String>()
      try await Task(executorPreference: loop) {
        try loop.execute { order.append("executed") }
        try await loop.run { order.append("run") }
      }.value
      #expect(await order.waitUntil(count: 2) == ["run", "executed"])
    }
  }

  @Test func onlyBodiesOnTheLoopAreOnItsThread() async throws {
    try await withLoop { loop in
      try await withLoop { other in
        #expect(!loop.isCurrent)
        let onLoop = try await loop.run { [loop.isCurrent, other.isCurrent] }
        #expect(onLoop == [true, false])
        let onOther = try await other.run { [loop.isCurrent, other.isCurrent] }
        #expect(onOther == [false, true])
      }
    }
  }

  @Test func executeNeverRunsInsideTheCall() async throws {
    try await withLoop { loop in
      let order = Collected<Int>()
      try await loop.run {
        try loop.execute { order.append(2) }
        order.append(1)
      }
      #expect(await order.waitUntil(count: 2) == [1, 2])
    }
  }

  @Test(arguments: [(threads: 1, jobs: 20_000), (threads: 8, jobs: 20_000)])
  func everyJobRunsOnceAndInTheOrderOfItsThread(threads: Int, jobs: Int) async throws {
    try await withLoop { loop in
      let seen = Lock(Array(repeating: [Int](), count: threads))
      await onThreads(threads) { thread in
        for job in 0..<jobs {
          do {
            try loop.execute { seen.withLock { $0[thread].append(job) } }
          } catch { Issue.record(error) }
        }
      }
      try await loop.run {}  // Comes after everything that was given before.
      #expect(seen.withLock { $0 } == Array(repeating: Array(0..<jobs), count: threads))
    }
  }

  @Test func jobsFromTheLoopThreadKeepTheirOrder() async throws {
    try await withLoop { loop in
      let order = Collected<Int>()
      try await loop.run {
        for job in 0..<1_000 { try loop.execute { order.append(job) } }
      }
      #expect(await order.waitUntil(count: 1_000) == Array(0..<1_000))
    }
  }

  @Test func manyWakeUpsOfAnIdleLoopAreAllHeard() async throws {
    try await withLoop { loop in
      for turn in 0..<5_000 {
        let answer = try await loop.run { turn }
        #expect(answer == turn)
      }
    }
  }

  @Test func jobsAndTurnsAreCounted() async throws {
    try await withLoop { loop in
      try await loop.run {}
      let before = loop.statistics
      for _ in 0..<100 { try await loop.run {} }
      try await loop.run {}  // A job is counted after it ran, before the next poll.
      let after = loop.statistics
      #expect(after.jobsRun - before.jobsRun >= 100)
      #expect(after.iterations > before.iterations)
      #expect(after.handles == 0 && after.requests == 0)
    }
  }

  @Test func theLongestTurnCoversALongCallback() async throws {
    try await withLoop { loop in
      try await loop.run { keepBusy(for: .milliseconds(50)) }
      await eventually("the turn is noted") { loop.statistics.longestTurn >= .milliseconds(40) }
    }
  }

  @Test func aTurnThatIsLongerThanTheLimitIsReported() async throws {
    await #expect(processExitsWith: .success) {
      let reports = Collected<String>()
      Report.setHandler { reports.append($0) }
      try await withLoop { loop in
        loop.turnLimit = .milliseconds(20)
        #expect(loop.turnLimit == .milliseconds(20))
        try await loop.run { keepBusy(for: .milliseconds(30)) }
        await reports.waitUntil(count: 1)
        loop.turnLimit = nil
        #expect(loop.turnLimit == nil)
      }
      let line = reports.values[0]
      precondition(line.hasPrefix("an event loop was held for "), line)
    }
  }

  @Test func openHandlesAreCounted() async throws {
    try await withLoop { loop in
      let timers = try await loop.run {
        try (0..<7).map { _ in try loop.schedule(after: .seconds(60)) {} }
      }
      #expect(loop.statistics.handles == 7)
      withExtendedLifetime(timers) {}
      for timer in timers { timer.cancel() }
    }
  }

  @Test func theWrongThreadTraps() async throws {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      try EventLoop().preconditionIsCurrent()
    }
    expectMessage("event loop's own thread only", in: result)
  }
}

/// Release builds trap without their message.
func expectMessage(
  _ message: String, in result: ExitTest.Result?, sourceLocation: SourceLocation = #_sourceLocation
) {
  let text = result.map { String(decoding: $0.standardErrorContent, as: UTF8.self) } ?? ""
  #expect(text.contains(message), sourceLocation: sourceLocation)
}
