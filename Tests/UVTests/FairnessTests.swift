import TestSupport
import Testing
import UV

/// Work that keeps asking for more leaves everything else its turn.
@Suite(.timeLimit(.minutes(1))) struct FairnessTests {
  /// A way to keep a loop busy for ever. Each goes on until `isOver` is set.
  enum Hog: CaseIterable, Sendable {
    case execute, task, timer, slowTimers, slowRepeatingTimers, sleepers

    func start(on loop: EventLoop, until isOver: Event) throws {
      switch self {
      case .execute: try Hog.execute(on: loop, until: isOver)
      case .task:
        Task(executorPreference: loop) {
          while !isOver.isSet { await Task.yield() }
        }
      case .timer: try Hog.rearm(on: loop, until: isOver, busy: .zero)
      case .slowTimers:
        // While one runs, the other falls due.
        for _ in 0..<2 { try Hog.rearm(on: loop, until: isOver, busy: .milliseconds(3)) }
      case .slowRepeatingTimers:
        for _ in 0..<2 {
          try loop.schedule(every: .milliseconds(1)) { timer in
            isOver.isSet ? timer.cancel() : keepBusy(for: .milliseconds(3))
          }
        }
      case .sleepers:
        for _ in 0..<4 {
          Task(executorPreference: loop) {
            while !isOver.isSet {
              try await loop.sleep(for: .zero)
              keepBusy(for: .milliseconds(2))
            }
          }
        }
      }
    }

    private static func execute(on loop: EventLoop, until isOver: Event) throws {
      try loop.execute {
        if !isOver.isSet { try? execute(on: loop, until: isOver) }  // Refused when the test failed.
      }
    }

    private static func rearm(on loop: EventLoop, until isOver: Event, busy: Duration) throws {
      try loop.schedule(after: .zero) {
        guard !isOver.isSet else { return }
        try? rearm(on: loop, until: isOver, busy: busy)
        keepBusy(for: busy)
      }
    }
  }

  @Test(arguments: Hog.allCases)
  func aHogLeavesOthersTheirTurn(_ hog: Hog) async throws {
    try await withLoop { loop in
      let isOver = Event()
      defer { isOver.set() }
      try hog.start(on: loop, until: isOver)
      for _ in 0..<10 {
        try await loop.run {}  // A job from another thread.
        try await loop.sleep(for: .milliseconds(1))  // A timer.
        await Task(executorPreference: loop) { await Task.yield() }.value  // A task.
      }
      try await exchange(on: loop)  // A socket.
    }
  }

  private func exchange(on loop: EventLoop) async throws {
    try await TCPListener.withListener(on: .loopback(port: 0), loop: loop) { listener in
      async let accepted = listener.accept()
      let near = try await TCPStream.connect(to: listener.localAddress, loop: loop)
      let far = try await accepted
      try await near.write("ping")
      #expect(try await far.read() == Array("ping".utf8))
      near.abort()
      far.abort()
    }
  }

  @Test func aZeroTimerFiresInTheNextTurnOfABusyLoop() async throws {
    try await withLoop { loop in
      let isOver = Event()
      defer { isOver.set() }
      try Hog.execute.start(on: loop, until: isOver)
      let turns = Collected<Int>()
      for _ in 0..<20 {
        try await loop.run {
          let armed = loop.statistics.iterations
          try loop.schedule(after: .zero) { turns.append(loop.statistics.iterations - armed) }
        }
      }
      await turns.waitUntil(count: 20)
      #expect(turns.values.allSatisfy { $0 <= 2 })
    }
  }
}
