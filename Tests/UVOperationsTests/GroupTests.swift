import Foundation
import TestSupport
import Testing
import UV
import UVOperations

@Suite(.timeLimit(.minutes(1)))
struct GroupTests {
  @Test func aGroupFinishesAfterAllOfItsOperations() async throws {
    let plain = BlockOperation {}
    let operations = (0..<20).map { Later($0 % 4) }
    for (one, next) in zip(operations, operations.dropFirst()) { next.addDependency(one) }
    plain.addDependency(operations[19])
    let group = GroupOperation(operations + [plain])
    group.whenFinished { result in
      #expect(throws: Never.self) { try result.get() }
      #expect(plain.isFinished && operations.allSatisfy(\.isFinished))
    }
    try await OperationQueue().run(group)
    #expect(group.progress.fractionCompleted == 1 && group.progress.isFinished)
  }

  @Test func anEmptyGroupFinishesAtOnce() {
    let group = GroupOperation()
    group.start()
    #expect(group.isFinished)
  }

  @Test func theFirstFailureCancelsTheOthersAndIsTheResult() async {
    let failing = Later(1, .failure(Broken()))
    let stuck = (0..<5).map { _ in Stuck() }
    let after = Later()
    after.addDependency(failing)
    let group = GroupOperation(stuck + [failing, after])
    OperationQueue().add(group)
    #expect(await group.thrown is Broken)
    #expect(stuck.allSatisfy { $0.isFinished && $0.isCancelled } && after.mains.value == 0)
    #expect(group.progress.completedUnitCount == 7)
  }

  @Test func failuresAreGatheredIfTheOthersGoOn() async throws {
    let operations = (0..<4).map { Later($0, $0 % 2 == 0 ? .failure(Broken()) : .success(1)) }
    let group = GroupOperation(operations, aFailure: .letsOthersGoOn)
    group.start()
    let error = try #require(await group.thrown as? GroupFailed)
    #expect(error.errors.count == 2 && error.errors.allSatisfy { $0 is Broken })
    #expect("\(error)".contains("2 of") && "\(error)".contains("Broken()"))
    #expect(operations.allSatisfy { $0.mains.value == 1 })
  }

  @Test(arguments: [false, true])
  func stoppingAGroupStopsAndAwaitsItsOperations(byTimeout: Bool) async {
    let began = Counter()
    let mayEnd = DispatchSemaphore(value: 0)
    let plain = BlockOperation {  // Cannot be interrupted.
      began.increment()
      mayEnd.wait()
    }
    let stuck = (0..<5).map { _ in Stuck() }
    let waiting = Later()
    waiting.addDependency(stuck[0])
    let group = GroupOperation(stuck + [plain, waiting])
    if byTimeout { group.timeout = .seconds(1) }
    OperationQueue().add(group)
    await eventually { began.value == 1 }
    if !byTimeout { group.cancel() }
    await eventually { waiting.isFinished && stuck.allSatisfy(\.isFinished) }
    #expect(!group.isFinished, "one of its operations still runs")
    mayEnd.signal()
    let error = await group.thrown
    #expect(byTimeout ? error is OperationTimedOut : error is CancellationError)
    #expect(plain.isFinished && waiting.isFinished && stuck.allSatisfy(\.isFinished))
    #expect(waiting.mains.value == 0)
  }

  @Test(arguments: [false, true])
  func aGroupThatNeverStartsCancelsItsOperations(byDependency: Bool) async {
    let operations = (0..<5).map { _ in Later() }
    let dependency = Later(0, .failure(Broken()))
    let group = GroupOperation(operations)
    group.addDependency(dependency)
    if !byDependency { group.cancel() }
    OperationQueue().add(dependency, group)
    let error = await group.thrown
    #expect(byDependency ? error is Broken : error is CancellationError)
    for operation in operations { #expect(await operation.thrown is CancellationError) }
    #expect(operations.allSatisfy { $0.mains.value == 0 })
  }

  @Test func finishingByHandCancelsTheOperations() async {
    let stuck = (0..<3).map { _ in Stuck() }
    let plain = BlockOperation {}
    plain.addDependency(stuck[0])
    let group = GroupOperation(stuck + [plain])
    group.start()
    group.finish()
    #expect(await group.thrown == nil)
    for operation in stuck { #expect(await operation.thrown is CancellationError) }
    await eventually { plain.isFinished }
  }

  @Test func groupsNest() async throws {
    let inner = GroupOperation((0..<3).map { Later($0) })
    let outer = GroupOperation(inner, Later())
    try await OperationQueue().run(outer)
    #expect(inner.isFinished)
  }

  @Test func theQueueGivenKeepsTheLimit() async throws {
    let queue = OperationQueue()
    queue.maxConcurrentOperationCount = 2
    let running = Guarded((now: 0, most: 0))
    let operations = (0..<20).map { _ in
      Body { operation in
        running.update {
          $0.now += 1
          $0.most = max($0.most, $0.now)
        }
        DispatchQueue.global().async {
          running.update { $0.now -= 1 }
          operation.finish(returning: 1)
        }
      }
    }
    try await OperationQueue().run(GroupOperation(operations, on: queue))
    #expect(running.value.now == 0 && (1...2).contains(running.value.most))
  }

  @Test func cancellingItsProgressCancelsTheGroup() async {
    let group = GroupOperation(Stuck())
    OperationQueue().add(group)
    await eventually { group.isExecuting }
    group.progress.cancel()
    #expect(await group.thrown is CancellationError)
  }

  @Test func progressLosesNoOperation() async throws {
    let group = GroupOperation((0..<2_000).map { _ in Later(0) })
    try await OperationQueue().run(group)
    #expect(group.progress.completedUnitCount == 2_000)
  }

  /// Foundation's, cancelled, finish before what they depend on, which points at them all the same.
  @Test func foundationsOperationsOfAGroupThatNeverStartsOutliveWhatTheyDependOn() async {
    for _ in 0..<300 {
      let dependency = Later()
      let group: GroupOperation = {
        let operations = (0..<5).map { _ in BlockOperation {} }
        for operation in operations { operation.addDependency(dependency) }
        return GroupOperation(operations + [dependency])
      }()
      group.cancel()
      group.start()
      _ = await dependency.thrown
    }
  }

  enum End: CaseIterable { case finished, cancelled, neverStarted }

  @Test(arguments: End.allCases)
  func aGroupAndItsOperationsAreReleased(end: End) async {
    weak var group: GroupOperation?
    weak var child: Later?
    do {
      let (later, plain) = (Later(), BlockOperation {})
      plain.addDependency(later)
      let made = GroupOperation(later, plain)
      (group, child) = (made, later)
      if end == .cancelled { made.cancel() }
      if end != .neverStarted {
        made.start()
        await made.finished()
      }
    }
    await eventually { group == nil && child == nil }
  }

  @Test func cancelRacesTheLastFinish() async {
    await onThread {
      let racers = Racers()
      for _ in 0..<1_000 {
        let last = Stuck()
        let group = GroupOperation(last, BlockOperation {})
        group.start()
        racers.race({ last.finish(returning: 1) }, { group.cancel() })
        group.waitUntilFinished()
        #expect(last.isFinished)
      }
    }
  }
}
