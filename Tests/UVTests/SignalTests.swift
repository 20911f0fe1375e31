import Glibc
import TestSupport
import Testing
import UV

/// Signals belong to the whole process: one test at a time, and only signals that nothing else here uses. Each is raised
/// while it is observed; otherwise it would end the process.
@Suite(.serialized, .timeLimit(.minutes(1))) struct SignalTests {
  @Test(arguments: [Signal.user1, .user2, .windowChange])
  func anObserverSeesItsSignalOnTheLoopThread(_ signal: Signal) async throws {
    try await withLoop { loop in
      let seen = Collected<String>()
      let observer = try await loop.run {
        try loop.observe(signal) { seen.append("\($0), on the loop: \(loop.isCurrent)") }
      }
      for count in 1...20 {
        send(signal)
        await seen.waitUntil(count: count)
      }
      #expect(Set(seen.values) == ["\(signal), on the loop: true"])
      withExtendedLifetime(observer) {}
    }
  }

  @Test func anObserverNeedNotAskWhichSignalItIs() async throws {
    try await withLoop { loop in
      let seen = Collected<Void>()
      let observer = try await loop.run { try loop.observe(.user1) { seen.append(()) } }
      send(.user1)
      await seen.waitUntil(count: 1)
      withExtendedLifetime(observer) {}
    }
  }

  @Test func aCancelledObserverSeesNothing() async throws {
    try await withLoop { loop in
      let cancelled = Collected<Signal>()
      let kept = Collected<Signal>()
      let observers = try await loop.run {
        let observers = [
          try loop.observe(.user1) { cancelled.append($0) },
          try loop.observe(.user1) { kept.append($0) },
        ]
        observers[0].cancel()
        observers[0].cancel()
        return observers
      }
      send(.user1)
      await kept.waitUntil(count: 1)
      #expect(cancelled.values == [])
      withExtendedLifetime(observers) {}
    }
  }

  @Test func aDroppedObserverIsClosed() async throws {
    try await withLoop { loop in
      _ = try loop.observe(.windowChange) { _ in }
      try await loop.run {}
      await eventually("its handle is closed") { loop.statistics.handles == 0 }
    }
  }

  @Test func twoLoopsBothSeeASignal() async throws {
    try await withLoop { loop in
      try await withLoop { other in
        let seen = Collected<Int>()
        let observers = [
          try await loop.run { try loop.observe(.user1) { _ in seen.append(1) } },
          try await other.run { try other.observe(.user1) { _ in seen.append(2) } },
        ]
        send(.user1)
        await seen.waitUntil(count: 2)
        #expect(Set(seen.values) == [1, 2])
        withExtendedLifetime(observers) {}
      }
    }
  }

  @Test func aSequenceBringsSignalsInTheOrderOfTheirComing() async throws {
    try await withLoop { loop in
      let signals = try await loop.run { try loop.signals(.user1, .user2) }
      var iterator = signals.makeAsyncIterator()
      for signal in [Signal.user1, .user2, .user2, .user1] {
        send(signal)
        #expect(await iterator.next() == signal)
      }
    }
  }

  @Test func aSequenceEndsWithTheLoop() async throws {
    let loop = try EventLoop()
    let signals = try await loop.run { try loop.signals(.user1) }
    let count = Task { await signals.reduce(0) { count, _ in count + 1 } }
    await loop.shutdown()
    #expect(await count.value == 0)
  }

  @Test func observingEndsWithTheSequence() async throws {
    try await withLoop { loop in
      for _ in 0..<1_000 { _ = try loop.signals(.user1, .windowChange) }
      await eventually("nobody observes") { loop.statistics.handles == 0 }
    }
  }

  @Test func cancelledConsumersDoNotStayRegistered() async throws {
    try await withLoop { loop in
      for _ in 0..<1_000 {
        let task = Task { try await loop.waitUntilSignal(.windowChange) }
        task.cancel()
        let signal = try await task.value
        #expect(signal == nil)
      }
      await eventually("nobody observes") { loop.statistics.handles == 0 }
    }
  }

  @Test func aStalledConsumerKeepsTheNewestSignals() async throws {
    try await withLoop { loop in
      let seen = Tally()
      let (observer, signals) = try await loop.run {
        let observer = try loop.observe(.windowChange) { _ in seen.add() }
        return (observer, try loop.signals(.windowChange))
      }
      for count in 1...40 {
        send(.windowChange)
        await eventually("it is seen") { seen.value == count }
      }
      try await loop.run {}  // Both have had the last one.
      observer.cancel()
      await loop.shutdown()
      let kept = await signals.reduce(0) { count, _ in count + 1 }
      #expect(kept == 16)
    }
  }

  @Test func waitingBringsTheFirstSignal() async throws {
    try await withLoop { loop in
      let task = Task(executorPreference: loop) {
        try await loop.waitUntilSignal(.user2, .windowChange)
      }
      await eventually("it is observed") { loop.statistics.handles == 2 }
      send(.user2)
      let signal = try await task.value
      #expect(signal == .user2)
    }
  }

  @Test func waitingEndsWithTheLoop() async throws {
    let loop = try EventLoop()
    let task = Task { try await loop.waitUntilSignal(.user1) }
    await eventually("it is observed") { loop.statistics.handles == 1 }
    await loop.shutdown()
    #expect(try await task.value == nil)
  }

  @Test(arguments: [SIGKILL, SIGSTOP, 0, -1, 32, 33, 65, Int32.max])
  func whatCannotBeObservedIsRefused(_ number: Int32) async throws {
    try await withLoop { loop in
      let signal = Signal(rawValue: number)
      let refusal = IOError(.invalidArgument, "observe", "signal \(number)")
      #expect(throws: refusal) { _ = try loop.observe(signal) { _ in } }
      #expect(throws: refusal) { _ = try loop.signals(.windowChange, signal) }
      await #expect(throws: refusal) { try await loop.waitUntilSignal(signal) }
      await eventually("nobody observes") { loop.statistics.handles == 0 }
    }
  }
}

private func send(_ signal: Signal) { kill(getpid(), signal.rawValue) }
