import Foundation
import TestSupport
import Testing
import UVOperations

/// A dependency finishes while something happens to its dependent: nobody is forgotten, and nobody begins too early.
@Suite(.timeLimit(.minutes(2)))
struct DependencyRaceTests {
  /// What is done to the dependent while the dependency finishes.
  ///
  /// Putting it into a queue is a race of its own, in EnqueueRaceTests.
  enum Way: Int, CaseIterable {
    case addingBeforeEnqueuing, addingInASuspendedQueue, addingAndStarting
  }

  struct Pair: Sendable {
    let way: Way
    let dependency: Operation
    let dependent: Operation
    let queue: OperationQueue
  }

  @Test func addingADependentRacesTheDependencysFinish() async {
    let result = await #expect(processExitsWith: .success, observing: childOutput) {
      endThisProcessIfItHangs()
      let counts = Counts()
      let queue = OperationQueue()
      await Race<Pair>(latest: .microseconds(20)) {
        finish($0.dependency)
      } against: {
        act($0)
      }
      .run {
        makePair($0, counts, queue)
      } check: {
        waitForBoth($0)
      }
      await counts.expectEachOnce(2 * rounds, in: queue)
    }
    expectNoComplaint(result)
  }

  /// The last reference to a dependent goes while its dependency tells it that it has finished.
  @Test func droppingADependentRacesTheDependencysFinish() async {
    let result = await #expect(processExitsWith: .success, observing: childOutput) {
      endThisProcessIfItHangs()
      let counts = Counts()
      let dropped = Counts()
      await Race<(dependency: Operation, dependent: Guarded<AsynchronousOperation?>)> {
        finish($0.dependency)
      } against: {
        $0.dependent.update { $0 = nil }
      }
      .run { round in
        let dependency = round % 3 == 0 ? CountedBlock(counts) : makeCounted(round, counts)
        if dependency is any CountedOperation { dependency.start() }
        let dependent = makeCounted(round / 2, dropped)
        dependent.addDependency(dependency)
        return (dependency, Guarded(dependent))
      }
      await counts.expectEachOnce(rounds)
      await dropped.expectEachOnce(0, made: rounds)
    }
    expectNoComplaint(result)
  }
}

/// Ours and Foundation's in turn, but not Foundation's both: those are Foundation's affair.
private func makePair(
  _ round: Int, _ counts: Counts, _ queue: OperationQueue
) -> DependencyRaceTests.Pair {
  let way = DependencyRaceTests.Way(rawValue: round % DependencyRaceTests.Way.allCases.count)!
  let kinds = round / 3 % 3
  let dependency = kinds == 0 ? CountedBlock(counts) : makeCounted(round, counts)
  // Foundation's can only be the dependent if nothing has begun to look at it.
  let isForeign = kinds == 1 && way == .addingBeforeEnqueuing
  let dependent = isForeign ? CountedBlock(counts) : makeCounted(round / 2, counts, .inMain)
  if dependency is any CountedOperation { dependency.start() }
  queue.isSuspended = way == .addingInASuspendedQueue
  if queue.isSuspended { queue.addOperation(dependent) }
  return DependencyRaceTests.Pair(
    way: way, dependency: dependency, dependent: dependent, queue: queue)
}

private func act(_ pair: DependencyRaceTests.Pair) {
  pair.dependent.addDependency(pair.dependency)
  if pair.way == .addingAndStarting { pair.dependent.start() }
}

private func waitForBoth(_ pair: DependencyRaceTests.Pair) {
  pair.queue.isSuspended = false
  if pair.way == .addingBeforeEnqueuing { pair.queue.addOperation(pair.dependent) }
  pair.dependency.spinUntilFinished()
  pair.dependent.spinUntilFinished()
}

private func finish(_ operation: Operation) {
  guard let counted = operation as? any CountedOperation else { return operation.start() }
  counted.finishWork()
}
