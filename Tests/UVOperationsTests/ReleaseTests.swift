import Foundation
import TestSupport
import Testing
import UVOperations

/// Nothing outlives its use: weak references end as `nil`.
@Suite(.timeLimit(.minutes(1)))
struct ReleaseTests {
  /// Doubles the output of another operation, which its input holds.
  final class Double: ResultOperation<Int>, @unchecked Sendable {
    private let input: OperationInput<Int>
    init(_ input: @autoclosure @escaping @Sendable () throws -> Int) {
      self.input = OperationInput(input)
    }
    override func main() { finish(Result { try input.take() * 2 }) }
    override func releaseResources() { input.release() }
  }

  enum End: CaseIterable { case finished, cancelledBefore, timedOut, neverStarted }

  @Test(arguments: End.allCases)
  func everythingIsReleasedAtTheEnd(end: End) async {
    weak var first: Later?
    weak var second: Double?
    do {
      let source = Later(end == .timedOut ? 300 : 1)
      let double = Double(try source.output)
      first = source
      second = double
      if end == .timedOut { source.timeout = .milliseconds(1) }
      double.addDependency(source)
      if end != .neverStarted {
        // Handlers that hold everything; only the end of the operation can let go of it.
        for operation in [source, double] {
          operation.whenFinished { _ = (source, double) }
          operation.onCancel { _ = (source, double) }
          operation.completionBlock = { _ = (source, double) }
        }
        if end == .cancelledBefore { double.cancel() }
        OperationQueue().add(source, double)
        await source.finished()
        await double.finished()
        source.onCancel { _ = (source, double) }
      } else {
        double.whenFinished { _ in }
      }
      if end == .finished { #expect(try! double.output == 84) }
    }
    await eventually("\(end)") { second == nil }
    await eventually("\(end)") { first == nil }
  }

  @Test func anOperationDroppedRightAfterAddingFinishes() async {
    let finishes = Counter()
    let queue = OperationQueue()
    for _ in 0..<2_000 {
      let operation = Later(0)
      operation.whenFinished { finishes.increment() }
      queue.add(operation)
    }
    await eventually { finishes.value == 2_000 && queue.operationCount == 0 }
  }

  @Test func aCancelledAwaitLeavesNothingBehind() async {
    final class Marker: Sendable {}
    weak var marker: Marker?
    let operation = Stuck()
    operation.start()
    do {
      let held = Marker()
      marker = held
      let task = Task { [held] in
        defer { _ = held }
        return try await operation.value
      }
      task.cancel()
      _ = await task.result
    }
    await eventually { marker == nil }
    operation.finish(returning: 1)
  }
}
