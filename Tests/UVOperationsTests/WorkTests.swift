import Foundation
import TestSupport
import Testing
import UV
import UVOperations

@Suite(.timeLimit(.minutes(1)))
struct WorkTests {
  /// Blocks threads of the pool until it is opened.
  private final class Gate: Sendable {
    private let semaphore = DispatchSemaphore(value: 0)
    let entered = Counter()

    func wait() {
      entered.increment()
      semaphore.wait()
      semaphore.signal()
    }

    func open() { semaphore.signal() }
  }

  @Test func theOutputIsWhatTheClosureReturnsOnAnotherThread() async throws {
    try await withLoop { loop in
      let work = WorkOperation(on: loop) { loop.isCurrent ? 0 : 42 }
      let output = try await OperationQueue().run(work)
      #expect(output == 42)
    }
  }

  @Test func whatTheClosureThrowsIsTheFailure() async throws {
    try await withLoop { loop in
      let work = WorkOperation<Int>(on: loop) { throw Broken() }
      work.start()
      #expect(await work.thrown is Broken)
    }
  }

  @Test func manyClosuresAllRunOnce() async throws {
    try await withLoop { loop in
      let runs = Counter()
      let operations = (0..<1_000).map { index in
        WorkOperation(on: loop) {
          runs.increment()
          return index
        }
      }
      let queue = OperationQueue()
      for operation in operations { queue.add(operation) }
      for (index, operation) in operations.enumerated() {
        let output = try await operation.value
        #expect(output == index)
      }
      #expect(runs.value == 1_000)
    }
  }

  @Test func cancelledInThePoolsQueueItNeverRunsAndRunningItEndsUnseen() async throws {
    try await withLoop { loop in
      let gate = Gate()
      defer { gate.open() }
      // More than the pool has threads, so that the last of them waits.
      let blockers = (0..<64).map { _ in WorkOperation(on: loop) { gate.wait() } }
      for blocker in blockers { blocker.start() }
      await eventually { gate.entered.value > 0 }
      let runs = Counter()
      let queued = WorkOperation(on: loop) { runs.increment() }
      queued.start()
      queued.cancel()
      #expect(await queued.thrown is CancellationError)
      for blocker in blockers { blocker.cancel() }
      for blocker in blockers { #expect(await blocker.thrown is CancellationError) }
      let entered = gate.entered.value
      gate.open()
      let last = WorkOperation(on: loop) {}
      try await OperationQueue().run(last)
      #expect(runs.value == 0 && gate.entered.value == entered)
    }
  }

  /// A pipe with a name blocks whoever opens it until somebody opens the other end.
  @Test func cancellingAnOpenThatBlocksLetsASerialQueueGoOn() async throws {
    try await withLoop { loop in
      let path = FileManager.default.temporaryDirectory.path + "/swift-uv-\(UUID())"
      #expect(mkfifo(path, 0o600) == 0)
      let entered = Counter()
      let blocked = WorkOperation(on: loop) {
        entered.increment()
        close(open(path, O_RDONLY))
      }
      let next = Later()
      let queue = OperationQueue()
      queue.maxConcurrentOperationCount = 1
      queue.add(blocked, next)
      await eventually { entered.value == 1 }
      blocked.cancel()
      let output = try await next.value
      #expect(output == 42)
      #expect(await blocked.thrown is CancellationError)
      let bothEnds = open(path, O_RDWR)
      await eventually { loop.statistics.requests == 0 }
      close(bothEnds)
      unlink(path)
    }
  }

  enum End: CaseIterable { case finished, cancelledBefore, cancelledLater, neverStarted }

  @Test(arguments: End.allCases)
  func theClosureIsReleased(end: End) async throws {
    final class Marker: Sendable {}
    weak var marker: Marker?
    try await withLoop { loop in
      let gate = Gate()
      let work = {
        let held = Marker()
        marker = held
        return WorkOperation(on: loop) {
          _ = held
          if end == .cancelledLater { gate.wait() }
        }
      }()
      if end == .cancelledBefore { work.cancel() }
      if end != .neverStarted { work.start() }
      if end == .cancelledLater {
        await eventually { gate.entered.value == 1 }
        work.cancel()
        #expect(await work.thrown is CancellationError)
        gate.open()
      }
      if end == .finished { try await work.value }
      if end == .neverStarted { return }
      await eventually { marker == nil }
    }
    await eventually { marker == nil }
  }

  @Test func onALoopThatEndedItFailsWithoutARun() async throws {
    let loop = try EventLoop()
    await loop.shutdown()
    let runs = Counter()
    let work = WorkOperation(on: loop) { runs.increment() }
    work.start()
    #expect(await work.thrown is EventLoopClosed)
    #expect(runs.value == 0)
  }

  @Test func shuttingTheLoopDownEndsWorkAndWaitsForWhatRuns() async throws {
    let loop = try EventLoop()
    let gate = Gate()
    let blockers = (0..<8).map { _ in WorkOperation(on: loop) { gate.wait() } }
    for blocker in blockers { blocker.start() }
    await eventually { gate.entered.value > 0 }
    async let ended: Void = loop.shutdown()
    for blocker in blockers { #expect(await blocker.thrown is EventLoopClosed) }
    gate.open()
    await ended
    #expect(loop.statistics.requests == 0)
  }

  /// The first result stands, and the closure, whose turn may not have come, is not needed any more.
  @Test func finishingByHandIsHarmlessAtAnyMoment() async throws {
    try await withLoop { loop in
      let gate = Gate()
      let blockers = (0..<64).map { _ in WorkOperation(on: loop) { gate.wait() } }
      for blocker in blockers { blocker.start() }
      let operations = (0..<100).map { _ in WorkOperation(on: loop) { 1 } }
      for operation in operations {
        operation.start()
        operation.finish(returning: 2)
      }
      gate.open()
      for operation in operations { #expect((try? operation.output) == 2) }
      for blocker in blockers { try await blocker.value }
      let last = WorkOperation(on: loop) {}
      try await OperationQueue().run(last)
    }
  }

  @Test func cancellingAtAnyMomentFinishesOnce() async throws {
    try await withLoop { loop in
      await onThread {
        let racers = Racers()
        let finishes = Counter()
        for _ in 0..<1_000 {
          let work = WorkOperation(on: loop) { 1 }
          work.whenFinished { _ in finishes.increment() }
          racers.race({ work.start() }, { work.cancel() })
          work.waitUntilFinished()
          #expect((try? work.output) == 1 || isCancellation(work.result))
        }
        while finishes.value < 1_000 { sched_yield() }
        #expect(finishes.value == 1_000)
      }
    }
  }
}
