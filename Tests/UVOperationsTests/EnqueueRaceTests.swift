import Foundation
import TestSupport
import Testing
import UVOperations

@Suite(.timeLimit(.minutes(2)))
struct EnqueueRaceTests {
  /// Foundation by itself may overlook that the operation has become ready, until something else happens in the queue.
  @Test func enqueuingRacesTheDependencysFinish() async {
    let result = await #expect(processExitsWith: .success, observing: childOutput) {
      endThisProcessIfItHangs()
      let counts = Counts()
      let queue = OperationQueue()
      await Race<(dependency: any CountedOperation, dependent: any CountedOperation)>(
        latest: .microseconds(1)
      ) {
        $0.dependency.finishWork()
      } against: {
        queue.addOperation($0.dependent)
      }
      .run { round in
        let dependency = makeCounted(round, counts)
        dependency.start()
        let dependent = makeCounted(round / 2, counts, .inMain)
        dependent.addDependency(dependency)
        return (dependency, dependent)
      } check: {
        $0.dependent.spinUntilFinished()
      }
      await counts.expectEachOnce(2 * rounds, in: queue)
    }
    expectNoComplaint(result)
  }
}
