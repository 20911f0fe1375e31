import Foundation
import TestSupport
import Testing
import UVOperations

/// Two threads at one operation, very often: it ends once, nothing of it is left, and Foundation has nothing to complain about.
///
/// Each race has a process of its own, whose output can be read.
@Suite(.timeLimit(.minutes(2)))
struct RaceTests {
  @Test func cancelRacesStartInAQueue() async {
    let result = await #expect(processExitsWith: .success, observing: childOutput) {
      endThisProcessIfItHangs()
      let counts = Counts()
      let queues = [OperationQueue(), OperationQueue()]
      queues[0].maxConcurrentOperationCount = 1
      await Race<(any CountedOperation, OperationQueue)>(latest: .microseconds(40)) {
        operation, queue in
        queue.addOperation(operation)
      } against: { operation, _ in
        operation.cancel()
      }
      .run { round in
        let finishing: Finishing = round % 3 == 0 ? .inMain : .elsewhere
        return (makeCounted(round, counts, finishing), queues[round / 2 % 2])
      } check: { operation, _ in
        checkEnd(of: operation, counts)
      }
      await counts.expectEachOnce(rounds, in: queues[0], queues[1])
    }
    expectNoComplaint(result)
  }

  @Test func finishRacesCancel() async {
    let result = await #expect(processExitsWith: .success, observing: childOutput) {
      endThisProcessIfItHangs()
      let counts = Counts()
      let queue = OperationQueue()
      await Race<any CountedOperation> {
        $0.finishWork()
      } against: {
        $0.cancel()
      }
      .run {
        started($0, counts, queue)
      } check: {
        checkEnd(of: $0, counts)
      }
      await counts.expectEachOnce(rounds, in: queue)
    }
    expectNoComplaint(result)
  }

  @Test func twoFinishersRace() async {
    let result = await #expect(processExitsWith: .success, observing: childOutput) {
      endThisProcessIfItHangs()
      let counts = Counts()
      let queue = OperationQueue()
      await Race<any CountedOperation> {
        $0.finishWork()
      } against: {
        $0.finishWork()
      }
      .run {
        started($0, counts, queue)
      } check: {
        checkEnd(of: $0, counts)
      }
      await counts.expectEachOnce(rounds, in: queue)
      #expect(AsynchronousOperation.ignoredFinishes == rounds)
    }
    expectNoComplaint(result)
  }

  /// The operation is finished through a weak reference: a running one lives until it has finished, whoever lets go of it.
  @Test func droppingTheLastReferenceRacesFinish() async {
    let result = await #expect(processExitsWith: .success, observing: childOutput) {
      endThisProcessIfItHangs()
      let counts = Counts()
      let queue = OperationQueue()
      await Race<Dropped> {
        $0.strong.update { $0 = nil }
      } against: {
        $0.weak!.finishWork()
      }
      .run { Dropped(started($0, counts, queue)) }
      await counts.expectEachOnce(rounds, in: queue)
    }
    expectNoComplaint(result)
  }

  private final class Dropped: @unchecked Sendable {
    let strong: Guarded<(any CountedOperation)?>
    // Written in the initialiser only.
    weak var weak: (any CountedOperation)?
    init(_ operation: any CountedOperation) {
      strong = Guarded(operation)
      weak = operation
    }
  }
}

/// An operation that runs, in `queue` or without one.
private func started(
  _ round: Int, _ counts: Counts, _ queue: OperationQueue
) -> any CountedOperation {
  let operation = makeCounted(round, counts)
  if round / 2 % 2 == 0 { operation.start() } else { queue.addOperation(operation) }
  while !operation.events.hasBegun { sched_yield() }
  return operation
}

/// Counts, because a child process that reports very many issues gets stuck.
private func checkEnd(of operation: any CountedOperation, _ counts: Counts) {
  operation.spinUntilFinished()  // Its `main()` may still be about to return.
  if (operation as? CountedResult)?.hasSoundEnd == false { counts.faults.increment() }
}
