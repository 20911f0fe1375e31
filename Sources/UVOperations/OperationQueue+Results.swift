public import Foundation
internal import Synchronization

extension OperationQueue {
  /// Adds `operations` and gives their results as they come, in the order in which the operations finish.
  ///
  /// ```swift
  /// for await result in queue.results(of: lookUps) { print(try result.get()) }
  /// ```
  ///
  /// Any thread. They are in the queue when this returns. Ending the iteration early, or cancelling its task, cancels those that have not
  /// finished. The results that nobody has asked for yet are kept.
  public func results<Output: Sendable>(
    of operations: [ResultOperation<Output>]
  ) -> AsyncStream<Result<Output, any Error>> {
    let (results, continuation) = AsyncStream.makeStream(of: Result<Output, any Error>.self)
    let countdown = Countdown(operations.count)
    if operations.isEmpty { continuation.finish() }
    for operation in operations {
      // As a waiter, for whom the finishing thread is good enough: elsewhere two results could pass each other.
      operation.addHandler(waiter: countdown) { finished in
        if let operation = finished as? ResultOperation<Output>, let result = operation.result {
          continuation.yield(result)
        }
        if countdown.isOver() { continuation.finish() }
      }
    }
    add(operations)
    continuation.onTermination = { _ in for operation in operations { operation.cancel() } }
    return results
  }
}

private final class Countdown: Sendable {
  private let count: Atomic<Int>

  init(_ count: Int) { self.count = Atomic(count) }

  /// Counts one down, and returns whether it was the last.
  func isOver() -> Bool { count.subtract(1, ordering: .acquiringAndReleasing).newValue == 0 }
}
