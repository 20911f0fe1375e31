import Foundation
import TestSupport
import Testing
import UV
import UVOperations

/// Finished by an event loop.
private final class FinishedByALoop: ResultOperation<Int>, @unchecked Sendable {
  private let loop: EventLoop
  init(_ loop: EventLoop) { self.loop = loop }
  override func main() { try! loop.execute { self.finish(returning: 1) } }
}

@Suite(.timeLimit(.minutes(2)))
struct LoopFinishTests {
  /// One thread asks all the time, another sleeps until it is told.
  @Test func everyoneSeesWhatALoopFinishes() async throws {
    try await withLoop { loop in
      let unfinished = Counter()
      let together = Race<FinishedByALoop>(latest: .microseconds(20)) { operation in
        operation.start()
        while !operation.isFinished {}
        if operation.result == nil || operation.isExecuting { unfinished.increment() }
      } against: { operation in
        operation.waitUntilFinished()
        if operation.result == nil || operation.isExecuting { unfinished.increment() }
      }
      await together.run { _ in FinishedByALoop(loop) }
      #expect(unfinished.value == 0)
    }
  }
}
