import Foundation
import TestSupport
import Testing
import UV
import UVOperations

@Suite(.timeLimit(.minutes(1)))
struct AsyncBlockTests {
  enum Form: CaseIterable {
    case finish, operation, task

    /// A block of this form that finishes some time after it has returned.
    func make(_ runs: Counter) -> AsyncBlockOperation {
      switch self {
      case .finish:
        AsyncBlockOperation { _, finish in
          runs.increment()
          DispatchQueue.global().async { finish() }
        }
      case .operation:
        AsyncBlockOperation { operation in
          runs.increment()
          DispatchQueue.global().async { operation.finish() }
        }
      case .task:
        AsyncBlockOperation(task: {
          runs.increment()
          await Task.yield()
        })
      }
    }

    /// A block of this form that never finishes by itself, and holds `marker`.
    func makeStuck(_ runs: Counter, _ marker: Marker = Marker()) -> AsyncBlockOperation {
      switch self {
      case .finish:
        AsyncBlockOperation { operation, finish in
          runs.increment()
          operation.whenFinished { _ in _ = (finish, marker) }
        }
      case .operation:
        AsyncBlockOperation { _ in
          runs.increment()
          _ = marker
        }
      case .task:
        AsyncBlockOperation(task: {
          runs.increment()
          _ = marker
          try await EventLoop.shared.sleep(for: .seconds(3600))
        })
      }
    }
  }

  final class Marker: Sendable {}

  @Test(arguments: Form.allCases)
  func aBlockRunsOnceAndFinishesWhenItSaysSo(form: Form) async throws {
    let runs = Counter()
    let completions = Counter()
    let queue = OperationQueue()
    queue.maxConcurrentOperationCount = 1
    let operations = (0..<100).map { _ in form.make(runs) }
    for operation in operations {
      operation.completionBlock = { completions.increment() }
      queue.add(operation)
    }
    for operation in operations { try await operation.value }
    await eventually { completions.value == 100 && queue.operationCount == 0 }
    #expect(runs.value == 100)
  }

  @Test func theBlockHasReturnedBeforeItsOperationIsFinished() async throws {
    let returned = Guarded(false)
    let operation = AsyncBlockOperation { operation, finish in
      finish()
      #expect(operation.isExecuting && !operation.isFinished)
      returned.update { $0 = true }
    }
    operation.whenFinished { #expect(returned.value) }
    operation.start()
    #expect(operation.isFinished)
  }

  @Test func withoutABlockItFinishesAtOnce() {
    let operation = AsyncBlockOperation()
    operation.start()
    #expect(operation.isFinished)
    #expect(throws: Never.self) { try operation.output }
  }

  @Test(arguments: Form.allCases)
  func cancellingARunningOneLetsASerialQueueGoOn(form: Form) async throws {
    let runs = Counter()
    let queue = OperationQueue()
    queue.maxConcurrentOperationCount = 1
    let stuck = form.makeStuck(runs)
    let next = form.make(runs)
    queue.add(stuck, next)
    await eventually { runs.value == 1 }
    stuck.cancel()
    try await next.value
    #expect(await stuck.thrown is CancellationError)
  }

  @Test(arguments: Form.allCases)
  func oneCancelledBeforeItsStartNeverRuns(form: Form) async {
    let runs = Counter()
    let operation = form.makeStuck(runs)
    operation.cancel()
    OperationQueue().add(operation)
    #expect(await operation.thrown is CancellationError)
    #expect(runs.value == 0)
  }

  @Test(arguments: Form.allCases)
  func theTimeoutFinishesIt(form: Form) async {
    let operation = form.makeStuck(Counter())
    operation.timeout = .milliseconds(10)
    operation.start()
    #expect(await operation.thrown is OperationTimedOut)
  }

  enum End: CaseIterable { case finished, cancelledBefore, cancelledLater, neverStarted }

  @Test(arguments: Form.allCases, End.allCases)
  func theBlockAndTheOperationAreReleased(form: Form, end: End) async {
    weak var operation: AsyncBlockOperation?
    weak var marker: Marker?
    do {
      let (runs, held) = (Counter(), Marker())
      let made = form.makeStuck(runs, held)
      operation = made
      marker = held
      if end == .cancelledBefore { made.cancel() }
      if end != .neverStarted { made.start() }
      if end == .finished { made.finish() }
      if end == .cancelledLater { made.cancel() }
    }
    await eventually { operation == nil && marker == nil }
  }

  @Test func aBlockThatHasReturnedIsReleasedWhileItsOperationRuns() async {
    weak var marker: Marker?
    let operation = {
      let held = Marker()
      marker = held
      return AsyncBlockOperation { _ in _ = held }
    }()
    #expect(marker != nil)
    operation.start()
    #expect(marker == nil && operation.isExecuting)
    operation.finish()
  }

  @Test func aDroppedFinishFailsTheOperationAndNamesItsPlace() async throws {
    let queue = OperationQueue()
    queue.maxConcurrentOperationCount = 1
    let line: UInt = #line + 1
    let forgetful = AsyncBlockOperation { _, _ in }
    forgetful.name = "upload"
    let next = Later()
    queue.add(forgetful, next)
    #expect(try await next.value == 42)
    let error = try #require(await forgetful.thrown as? OperationAbandoned)
    #expect(error.operation == "upload" && error.line == line)
    #expect(error.file.hasSuffix("AsyncBlockTests.swift"))
    #expect("\(error)".contains("AsyncBlockTests.swift:\(line)"))
  }

  @Test func aFinishDroppedLaterOnAnyThreadFailsTheOperation() async {
    let kept = Guarded<[@Sendable () -> Void]>([])
    let operation = AsyncBlockOperation { _, finish in kept.update { $0 = [finish, finish] } }
    operation.start()
    kept.update { $0.removeLast() }
    #expect(operation.isExecuting, "a copy is left")
    // Dropped under a lock, which the handler takes too.
    operation.whenFinished { _ in kept.update { _ in } }
    kept.update { $0 = [] }
    #expect(await operation.thrown is OperationAbandoned)
  }

  @Test func aFinishThatWasCalledMayBeDroppedAndCalledAgain() async {
    let ignored = AsynchronousOperation.ignoredFinishes
    for _ in 0..<500 {
      let operation = AsyncBlockOperation { _, finish in
        DispatchQueue.global().async {
          finish()
          finish()
        }
      }
      operation.start()
      #expect(await operation.thrown == nil)
    }
    await eventually { AsynchronousOperation.ignoredFinishes >= ignored + 500 }
  }

  @Test func aTaskThatThrowsFailsTheOperation() async {
    let operation = AsyncBlockOperation(task: { throw Broken() })
    operation.start()
    #expect(await operation.thrown is Broken)
  }

  @Test func cancellingCancelsTheTask() async {
    let started = Event()
    let cancelled = Event()
    let operation = AsyncBlockOperation(task: {
      started.set()
      while !Task.isCancelled { await Task.yield() }
      cancelled.set()
    })
    operation.start()
    await started.wait()
    operation.cancel()
    await cancelled.wait()
    #expect(await operation.thrown is CancellationError)
  }

  /// Finish, drop and cancel against each other: finished once, whoever comes first.
  @Test func droppingRacesFinishAndCancel() async {
    await onThread {
      let racers = Racers()
      for round in 0..<1_000 {
        let kept = Guarded<(@Sendable () -> Void)?>(nil)
        let operation = AsyncBlockOperation { _, finish in kept.update { $0 = finish } }
        let finishes = Counter()
        operation.whenFinished { finishes.increment() }
        operation.start()
        racers.race(
          { kept.update { $0 = nil } }, { round % 2 == 0 ? operation.finish() : operation.cancel() }
        )
        operation.waitUntilFinished()
        while finishes.value == 0 { sched_yield() }
        #expect(finishes.value == 1)
      }
    }
  }
}
