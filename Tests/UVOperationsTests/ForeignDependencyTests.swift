import Foundation
import TestSupport
import Testing
import UVOperations

/// Foundation's own operations as dependents of ours, and as their dependencies.
@Suite(.timeLimit(.minutes(1)))
struct ForeignDependencyTests {
  enum Start: CaseIterable { case byHand, inAQueue }
  enum Added: CaseIterable { case before, after }
  struct How: CaseIterable, Sendable {
    let start: Start
    let added: Added
    static let allCases = Start.allCases.flatMap { start in
      Added.allCases.map { How(start: start, added: $0) }
    }
  }
  enum End: CaseIterable { case success, failure, cancelBeforeStart, cancelWhileRunning }

  /// However ours ends: Foundation's runs once, and not before. It knows nothing of failures.
  @Test(arguments: End.allCases, How.allCases)
  func foundationsWaitsForOurs(end: End, how: How) async {
    let queue = OperationQueue()
    let ours = Stuck()
    let sawTheEnd = Guarded<[Bool]>([])
    let foundations = BlockOperation { [weak ours] in
      sawTheEnd.update { $0.append(ours?.result != nil) }
    }
    let last = BlockOperation {}
    last.addDependency(foundations)
    if how.added == .before {
      foundations.addDependency(ours)
      queue.add(last, foundations)
    }
    if end == .cancelBeforeStart { ours.cancel() }
    if how.added == .before { #expect(!foundations.isReady && !foundations.isFinished) }
    if how.start == .byHand { ours.start() } else { OperationQueue().add(ours) }
    if end != .cancelBeforeStart { await eventually { ours.mains.value == 1 } }
    switch end {
    case .success: ours.finish(returning: 1)
    case .failure: ours.finish(throwing: Broken())
    case .cancelBeforeStart: break
    case .cancelWhileRunning: ours.cancel()
    }
    await ours.finished()
    if how.added == .after {
      foundations.addDependency(ours)
      #expect(foundations.isReady)
      queue.add(last, foundations)
    }
    await last.finished()
    #expect(sawTheEnd.value == [true])
    #expect(ours.mains.value == (end == .cancelBeforeStart ? 0 : 1))
    await eventually { queue.operationCount == 0 }
  }

  @Test(arguments: How.allCases, [false, true])
  func oursWaitsForFoundations(how: How, isCancelled: Bool) async {
    let ran = Counter()
    let foundations = BlockOperation { ran.increment() }
    let ours = Later(0)
    let startFoundations = {
      if isCancelled { foundations.cancel() }
      if how.start == .byHand { foundations.start() } else { OperationQueue().add(foundations) }
    }
    if how.added == .before {
      ours.addDependency(foundations)
      #expect(!ours.isReady && ours.dependencies == [foundations])
      ours.start()
      startFoundations()
    } else {
      startFoundations()
      await foundations.finished()
      ours.addDependency(foundations)
      #expect(ours.isReady)
      ours.start()
    }
    await ours.finished()
    #expect(foundations.isFinished)
    await eventually("it lets go of the other") { ours.dependencies.isEmpty }
    #expect(ran.value == (isCancelled ? 0 : 1) && ours.mains.value == ran.value)
    #expect(isCancellation(ours.result) == isCancelled)
  }

  @Test func oursThatIsCancelledDoesNotWaitForFoundations() async {
    let queue = OperationQueue()
    let foundations = BlockOperation {}
    let (ours, dependent) = (Later(), BlockOperation {})
    ours.addDependency(foundations)
    dependent.addDependency(ours)
    queue.add(dependent, ours)
    ours.cancel()
    await dependent.finished()
    #expect(isCancellation(ours.result) && !foundations.isFinished)
    foundations.start()
    await eventually { queue.operationCount == 0 }
  }

  /// Between two of Foundation's, ours can be given another dependency, and back.
  @Test func removingOursFromTheMiddleLosesNothing() async throws {
    let queue = OperationQueue()
    let (first, second) = (BlockOperation {}, BlockOperation {})
    let ours = Later()
    let last = BlockOperation {}
    ours.addDependency(first)
    last.addDependency(ours)
    queue.add(last, ours)
    ours.addDependency(second)
    ours.removeDependency(first)
    ours.addDependency(first)
    ours.removeDependency(second)
    #expect(ours.dependencies == [first] && !ours.isReady)
    first.start()
    await last.finished()
    #expect(try ours.output == 42)
    second.start()
  }

  /// Each waits for the one before, since Foundation's progress is not safe for two at once.
  @Test func progressCountsBothKinds() async {
    let queue = OperationQueue()
    queue.progress.totalUnitCount = 40
    await onThread {
      var operations: [Operation] = []
      for index in 0..<40 {
        let next: Operation = index % 2 == 0 ? Later(0) : BlockOperation {}
        if let last = operations.last { next.addDependency(last) }
        operations.append(next)
      }
      queue.addOperations(operations, waitUntilFinished: true)
    }
    await eventually { queue.progress.isFinished }
    #expect(queue.progress.completedUnitCount == 40)
  }

  /// Foundation would complain, and let the dependent go on with the queue in disorder.
  @Test func finishingOursBeforeItsQueueStartsItHoldsTheDependentBack() async {
    let result = await #expect(processExitsWith: .success, observing: childOutput) {
      endThisProcessIfItHangs()
      let queue = OperationQueue()
      queue.isSuspended = true
      let ours = Stuck()
      let foundations = BlockOperation {}
      foundations.addDependency(ours)
      queue.add(ours)
      OperationQueue().add(foundations)
      ours.finish(returning: 1)
      #expect(!ours.isFinished && !foundations.isReady)
      queue.isSuspended = false
      await foundations.finished()
      #expect(ours.mains.value == 0)
      await eventually { queue.operationCount == 0 }
    }
    expectNoComplaint(result)
  }

  @Test(arguments: [false, true])
  func aCompletionBlockThatHoldsBothKindsIsReleased(oursIsFirst: Bool) async {
    weak var goneOurs: Later?
    weak var goneFoundations: BlockOperation?
    do {
      let (ours, foundations) = (Later(0), BlockOperation {})
      (goneOurs, goneFoundations) = (ours, foundations)
      let (first, second): (Operation, Operation) =
        oursIsFirst ? (ours, foundations) : (foundations, ours)
      second.addDependency(first)
      ours.completionBlock = { _ = (ours, foundations) }
      OperationQueue().add(second, first)
      await second.finished()
    }
    await expectGone("ours") { goneOurs != nil }
    await expectGone("Foundation's") { goneFoundations != nil }
  }
}
