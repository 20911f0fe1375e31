import Foundation
import TestSupport
import Testing
import UVOperations

@Suite(.timeLimit(.minutes(1)))
struct CancellationTests {
  enum Point: CaseIterable {
    case beforeAdding, whileSuspended, whileWaiting, insideMain, whileRunning
    var isBeforeMain: Bool { self != .insideMain && self != .whileRunning }
  }

  /// Wherever it is cancelled, it finishes once, its dependent hears of it and its queue goes on.
  @Test(arguments: Point.allCases)
  func aCancelledOperationFinishes(point: Point) async throws {
    let queue = OperationQueue()
    queue.maxConcurrentOperationCount = 1
    let running = Counter()
    let operation = Later(600_000) { operation in
      if point == .insideMain { operation.cancel() }
      running.increment()
    }
    let completions = Counter()
    operation.completionBlock = { completions.increment() }
    let dependent = Later()
    dependent.addDependency(operation)
    let unrelated = Later()
    if point == .beforeAdding { operation.cancel() }
    if point == .whileSuspended { queue.isSuspended = true }
    if point == .whileWaiting { operation.addDependency(Manual()) }
    queue.add(operation, dependent, unrelated)
    if point == .whileSuspended || point == .whileWaiting { operation.cancel() }
    if point == .whileSuspended {
      #expect(operation.isCancelled && !operation.isFinished)
      queue.isSuspended = false
    }
    if point == .whileRunning {
      await eventually { running.value == 1 }
      operation.cancel()
    }
    await #expect(throws: CancellationError.self) { try await operation.value }
    await #expect(throws: CancellationError.self) { try await dependent.value }
    #expect(try await unrelated.value == 42)
    #expect(operation.mains.value == (point.isBeforeMain ? 0 : 1))
    #expect(operation.stops.value == (point.isBeforeMain ? 0 : 1))
    #expect(dependent.mains.value == 0 && !dependent.isCancelled)
    await eventually { completions.value > 0 && queue.operationCount == 0 }
    #expect(completions.value == 1)
  }

  @Test func cancellingAFinishedOperationChangesNothing() async throws {
    let operation = Later()
    operation.start()
    _ = try await operation.value
    operation.cancel()
    #expect(!operation.isCancelled && operation.stops.value == 0)
    #expect(try operation.output == 42)
  }

  @Test func aRunningOperationWithoutResultFinishesByItsAuthor() {
    let operation = Manual()
    let handled = Counter()
    operation.onCancel { handled.increment() }
    operation.start()
    operation.cancel()
    operation.cancel()
    #expect(operation.isCancelled && !operation.isFinished && operation.isExecuting)
    #expect(operation.stops.value == 1 && handled.value == 1)
    operation.onCancel { handled.increment() }
    #expect(handled.value == 2, "the work is told at once when it has to stop already")
    operation.finish()
    #expect(operation.isFinished)
  }

  @Test func didCancelNeverOverlapsMain() {
    let order = Guarded<[String]>([])
    final class Ordered: ResultOperation<Int>, @unchecked Sendable {
      let order: Guarded<[String]>
      init(_ order: Guarded<[String]>) { self.order = order }
      override func main() {
        cancel()
        order.update { $0.append("main") }
      }
      override func didCancel() { order.update { $0.append("cancel") } }
    }
    let operation = Ordered(order)
    operation.start()
    #expect(order.value == ["main", "cancel"])
    #expect(isCancellation(operation.result))
  }

  @Test func cancellingTheQueueInsideABodyIsSafe() async {
    let queue = OperationQueue()
    queue.maxConcurrentOperationCount = 1
    let operations = (0..<10).map { _ in
      Body { operation in
        queue.cancelAllOperations()
        operation.finish(returning: 1)
      }
    }
    await onThread { queue.addOperations(operations, waitUntilFinished: true) }
    #expect(try! operations[0].output == 1, "the result that came first stands")
    #expect(operations.dropFirst().allSatisfy { isCancellation($0.result) })
  }

  @Test func cancellingFromAHandlerIsSafe() async throws {
    for _ in 0..<100 {
      let operation = Later(0)
      operation.whenFinished { [weak operation] in operation?.cancel() }
      OperationQueue().add(operation)
      #expect(try await operation.value == 42)
    }
  }

  @Test func cancelRacesStartByHand() async {
    await onThread {
      let racers = Racers()
      for _ in 0..<2_000 {
        let operation = Stuck()
        racers.race({ operation.start() }, { operation.cancel() })
        operation.waitUntilFinished()
        #expect(isCancellation(operation.result))
        #expect(operation.stops.value == operation.mains.value)
      }
    }
  }
}
