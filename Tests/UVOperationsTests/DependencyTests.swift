import Foundation
import TestSupport
import Testing
import UVOperations

@Suite(.timeLimit(.minutes(1)))
struct DependencyTests {
  enum Kind: CaseIterable, Sendable {
    case ours, foundations
    func make() -> Operation { self == .ours ? Manual() : BlockOperation {} }
  }

  @Test(arguments: [1, 2])
  func aDependentMayBeEnqueuedFirst(queues: Int) async throws {
    let first = OperationQueue()
    let second = queues == 1 ? first : OperationQueue()
    first.maxConcurrentOperationCount = 1
    second.maxConcurrentOperationCount = 1
    let dependency = Later()
    let dependent = Later()
    dependent.addDependency(dependency)
    first.add(dependent)
    second.add(dependency)
    #expect(try await dependent.value == 42 && dependency.isFinished)
  }

  /// Foundation by itself would wait for ever.
  @Test(arguments: Kind.allCases, [false, true])
  func removingAnUnfinishedDependencyMakesReady(kind: Kind, isEnqueued: Bool) async throws {
    let queue = OperationQueue()
    let removed = kind.make()
    let kept = kind.make()
    let operation = Later()
    operation.addDependency(removed)
    operation.addDependency(kept)
    if isEnqueued { queue.add(operation) }
    operation.removeDependency(removed)
    #expect(operation.dependencies == [kept] && !operation.isReady)
    operation.removeDependency(kept)
    #expect(operation.isReady)
    if !isEnqueued { queue.add(operation) }
    #expect(try await operation.value == 42)
    removed.start()
    (removed as? Manual)?.finish()
  }

  @Test func removingOneDependencyLeavesTheOthers() async throws {
    let removed = Manual()
    let kept = Later()
    let operation = Later()
    operation.addDependency(removed)
    operation.addDependency(kept)
    operation.addDependency(kept)
    operation.removeDependency(removed)
    let queue = OperationQueue()
    queue.add(operation, kept)
    #expect(try await operation.value == 42 && kept.isFinished)
  }

  @Test func removingAndAddingAgainWhatIsJustFinishingLosesNoStart() async throws {
    for _ in 0..<20 {
      let pairs = (0..<200).map { _ in (ResultOperation<Void>(), ResultOperation<Void>()) }
      for (dependency, operation) in pairs {
        operation.addDependency(dependency)
        DispatchQueue.global().async { dependency.start() }
        DispatchQueue.global().async { operation.start() }
        DispatchQueue.global().async { operation.removeDependency(dependency) }
        DispatchQueue.global().async { operation.addDependency(dependency) }
      }
      for (_, operation) in pairs { try await operation.value }
    }
  }

  @Test func dependingOnItselfTraps() async {
    let result = await #expect(
      processExitsWith: .failure, observing: [\.standardErrorContent]
    ) {
      let operation = ResultOperation<Void>()
      operation.addDependency(operation)
    }
    let message = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
    #expect(message.contains("cannot depend on itself"))
  }

  @Test func removingFromACancelledOperationLeavesItReady() async {
    let dependency = Later()
    let operation = Later()
    operation.addDependency(dependency)
    operation.cancel()
    dependency.start()
    await dependency.finished()
    operation.removeDependency(dependency)
    #expect(operation.isReady)
    OperationQueue().add(operation)
    await operation.finished()
  }

  /// Foundation by itself would follow a dangling pointer. The address sanitizer watches this one.
  @Test(arguments: Kind.allCases, [false, true])
  func aDependentMayBeDroppedFirst(kind: Kind, isEnqueued: Bool) async {
    for _ in 0..<50 {
      let dependency = kind.make()
      weak var dropped: Later?
      do {
        let dependent = Later()
        dropped = dependent
        dependent.addDependency(dependency)
        if isEnqueued {
          OperationQueue().add(dependent)
          dependent.cancel()
          await dependent.finished()
        }
      }
      await eventually { dropped == nil }
      dependency.start()
      (dependency as? Manual)?.finish()
      await dependency.finished()
    }
  }

  @Test func removingRacesTheDependencysFinish() async {
    await onThread {
      let racers = Racers()
      let queue = OperationQueue()
      for _ in 0..<1_000 {
        let (first, second) = (Manual(), Manual())
        let dependent = Later(0)
        dependent.addDependency(first)
        dependent.addDependency(second)
        first.start()
        second.start()
        queue.addOperation(dependent)
        racers.race({ first.finish() }, { dependent.removeDependency(second) })
        dependent.waitUntilFinished()
        #expect(dependent.mains.value == 1)
        second.finish()
      }
    }
  }

  @Test func aDependentAlwaysSeesTheResult() async throws {
    let queue = OperationQueue()
    var pairs: [(Later, Body)] = []
    for index in 0..<2_000 {
      let first = Later(0, .success(index))
      let second = Body { [unowned first] in $0.finish(Result { try first.output }) }
      second.addDependency(first)
      queue.add(second, first)
      pairs.append((first, second))
    }
    for (index, pair) in pairs.enumerated() { #expect(try await pair.1.value == index) }
  }

  enum Failure: CaseIterable { case failed, cancelled, foreignCancelled }

  @Test(arguments: Failure.allCases, [false, true])
  func aFailedDependencyFailsItsDependents(failure: Failure, goesOn: Bool) async {
    let queue = OperationQueue()
    let dependency: Operation =
      switch failure {
      case .failed: Later(0, .failure(Broken()))
      case .cancelled: Later()
      case .foreignCancelled: BlockOperation {}
      }
    if failure != .failed { dependency.cancel() }
    let dependent = Later()
    let last = Later()
    dependent.startsAfterFailedDependencies = goesOn
    dependent.addDependency(dependency)
    last.addDependency(dependent)
    queue.add(last, dependent, dependency)
    await last.finished()
    #expect(dependent.mains.value == (goesOn ? 1 : 0) && last.mains.value == (goesOn ? 1 : 0))
    if goesOn { return }
    if failure == .failed {
      #expect(throws: Broken()) { try last.output }
    } else {
      #expect(throws: CancellationError.self) { try last.output }
    }
  }

  @Test func aDependencyAddedToAFinishedOperationIsNotKept() {
    let operation = Manual()
    operation.start()
    operation.finish()
    operation.addDependency(Manual())
    #expect(operation.dependencies.isEmpty && operation.isReady)
  }

  @Test func aBarrierHoldsOperationsBack() async throws {
    let queue = OperationQueue()
    let before = Later(20)
    let after = Later()
    let order = Guarded<[Bool]>([])
    queue.add(before)
    queue.addBarrierBlock { order.update { $0.append(before.isFinished) } }
    queue.add(after)
    after.cancel()
    await after.finished()
    #expect(order.value == [true], "even cancelled, it waits for the barrier that points at it")
  }
}
