import Foundation
import TestSupport
import Testing
import UVOperations

@Suite(.timeLimit(.minutes(1)))
struct LifecycleTests {
  enum FinishPoint: CaseIterable { case beforeStart, insideMain, laterElsewhere }
  enum Starter: CaseIterable { case queue, hand }

  @Test(arguments: FinishPoint.allCases, Starter.allCases)
  func finishesOnceWhereverFinishIsCalled(point: FinishPoint, starter: Starter) async {
    let mains = Counter()
    let completions = Counter()
    let operation = Body { operation in
      mains.increment()
      #expect(operation.isExecuting && !operation.isFinished)
      if point == .insideMain { return operation.finish(returning: 1) }
      DispatchQueue.global().async { operation.finish(returning: 1) }
    }
    operation.completionBlock = { completions.increment() }
    #expect(operation.isReady && !operation.isExecuting && operation.isAsynchronous)
    if point == .beforeStart { operation.finish(returning: 1) }
    #expect(!operation.isFinished && operation.result == nil)
    let queue = OperationQueue()
    if starter == .queue { queue.add(operation) } else { operation.start() }
    await operation.finished()
    #expect(operation.isFinished && !operation.isExecuting && !operation.isCancelled)
    #expect(mains.value == (point == .beforeStart ? 0 : 1))
    #expect(try! operation.output == 1)
    await eventually { completions.value > 0 && queue.operationCount == 0 }
    #expect(completions.value == 1)
  }

  @Test func anOperationStartedByHandLivesUntilItHasFinished() async {
    weak var operation: Manual?
    let finish = Guarded<(@Sendable () -> Void)?>(nil)
    do {
      let started = Manual()
      started.start()
      finish.update { $0 = { [weak started] in started?.finish() } }
      operation = started
    }
    #expect(operation?.isExecuting == true)
    finish.value?()
    await eventually { operation == nil }
  }

  @Test func anOperationIsFinishedWhenMainHasReturned() {
    let operation = Body { operation in
      operation.finish(returning: 1)
      #expect(!operation.isFinished && operation.result == nil)
    }
    operation.start()
    #expect(operation.isFinished)
  }

  @Test(arguments: [false, true])
  func startingAgainHasNoEffect(whenFinished: Bool) {
    let operation = Manual()
    operation.start()
    if whenFinished { operation.finish() }
    operation.start()
    #expect(operation.mains.value == 1 && operation.isFinished == whenFinished)
    operation.finish()
    #expect(operation.isFinished)
  }

  @Test func twoThreadsStartAnOperationOnce() async {
    await onThread {
      let racers = Racers()
      for _ in 0..<1_000 {
        let operation = Manual()
        racers.race({ operation.start() }, { operation.start() })
        #expect(operation.mains.value == 1)
        operation.finish()
        #expect(operation.isFinished)
      }
    }
  }

  @Test func aStartByHandWaitsForTheDependencies() async {
    let dependency = Manual()
    let operation = Later()
    operation.addDependency(dependency)
    operation.start()
    #expect(!operation.isExecuting && !operation.isReady)
    dependency.start()
    dependency.finish()
    await operation.finished()
    #expect(operation.mains.value == 1)
  }

  @Test func aStartByHandThatWaitsCanBeCancelled() async {
    let operation = Later()
    operation.addDependency(Manual())
    operation.start()
    operation.cancel()
    await operation.finished()
    #expect(operation.mains.value == 0 && isCancellation(operation.result))
  }

  @Test func startingByHandWhatWaitsInAQueueTraps() async {
    await #expect(processExitsWith: .failure) {
      let queue = OperationQueue()
      queue.isSuspended = true
      let operation = Manual()
      queue.add(operation)
      operation.start()
    }
  }

  @Test func finishingWithoutTheResultTraps() async {
    await #expect(processExitsWith: .failure) {
      Stuck().finish()
    }
  }

  @Test func aVoidResultNeedsNoArgument() {
    let operation = ResultOperation<Void>()
    operation.start()
    #expect(throws: Never.self) { try operation.output }
  }

  @Test func theSecondFinishIsIgnoredAndCounted() {
    let before = AsynchronousOperation.ignoredFinishes
    let operation = Stuck()
    operation.start()
    operation.finish(returning: 1)
    operation.finish(returning: 2)
    #expect(try! operation.output == 1)
    #expect(AsynchronousOperation.ignoredFinishes > before)
  }

  /// The race that would let Foundation finish an operation twice: `main()` returns while another thread finishes.
  @Test func finishingWhileMainReturnsCompletesOnce() async {
    let completions = Counter()
    let queue = OperationQueue()
    let racing = DispatchQueue(label: "finisher")
    let operations = (0..<3_000).map { _ in
      Body { operation in racing.async { operation.finish(returning: 1) } }
    }
    for operation in operations {
      operation.completionBlock = { completions.increment() }
      queue.add(operation)
    }
    await onThread { queue.waitUntilAllOperationsAreFinished() }
    await eventually { completions.value >= operations.count }
    #expect(completions.value == operations.count && queue.operationCount == 0)
  }
}
