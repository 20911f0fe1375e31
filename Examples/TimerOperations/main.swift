// What operations do with time: `swift run timer-operations`.

import Foundation
import UV
import UVOperations

let start = ContinuousClock.now

/// Prints `line` with the seconds since the start.
@Sendable func say(_ line: String) {
  let seconds = (ContinuousClock.now - start) / .seconds(1)
  print(String(format: "%6.2f s  %@", seconds, line))
}

/// A block that returns at once, while its operation goes on for two seconds.
func blockThatReturnsEarly(on queue: OperationQueue) async throws {
  let block = AsyncBlockOperation { operation, finish in
    DispatchQueue.global().asyncAfter(deadline: .now() + 2) {
      say("block: two seconds have passed, cancelled: \(operation.isCancelled)")
      finish()
    }
    say("block: returned, executing: \(operation.isExecuting)")
  }
  await withCheckedContinuation { continuation in
    block.completionBlock = {
      say("block: its completion block runs")
      continuation.resume()
    }
    queue.add(block)
  }
  try await block.value
}

/// Each step starts when the one before has finished, ours and Foundation's mixed.
func chain(on queue: OperationQueue) async throws {
  let steps: [Operation] = [
    TimerOperation(after: .milliseconds(300)),
    BlockOperation { say("chain: 0.3 s later") },
    TimerOperation(after: .milliseconds(200)),
    BlockOperation { say("chain: another 0.2 s later") },
  ]
  for (step, next) in zip(steps, steps.dropFirst()) { next.addDependency(step) }
  try await queue.run(GroupOperation(steps))
}

func repeatingTick(on queue: OperationQueue) async throws {
  let ticks = TimerOperation(every: .milliseconds(250), count: 4) { say("tick \($0) of 4") }
  try await queue.run(ticks)
  say("ticks: finished")
}

func timeout(on queue: OperationQueue) async {
  let hour = TimerOperation(after: .seconds(3600))
  hour.timeout = .milliseconds(500)
  do {
    try await queue.run(hour)
  } catch {
    say("timeout: \(error)")
  }
}

/// The third attempt succeeds. The waits between them grow.
func retry(on queue: OperationQueue) async throws {
  let backoff = Backoff(from: .milliseconds(200), by: 2, jitter: 0)
  let retry = RetryOperation(attempts: 5, backoff: backoff) { number in
    WorkOperation {
      say("retry: attempt \(number)")
      if number < 3 { throw OutOfOrder() }
      return "it works"
    }
  }
  say("retry: \(try await queue.run(retry))")
}

/// Two seconds of a minute; what waits behind it in the queue ends with it.
func cancellationHalfWay(on queue: OperationQueue) async throws {
  let minute = TimerOperation(every: .seconds(1), count: 60) { say("cancellation: second \($0)") }
  let next = TimerOperation(after: .zero)
  next.addDependency(minute)
  queue.add(minute, next)
  try await EventLoop.shared.sleep(for: .milliseconds(2_500))
  queue.cancelAllOperations()
  await queue.waitUntilEmpty()
  say("cancellation: left in the queue: \(queue.operationCount)")
  say("cancellation: both finished: \(minute.isFinished && next.isFinished)")
}

struct OutOfOrder: Error {}

let queue = OperationQueue()
try await blockThatReturnsEarly(on: queue)
try await chain(on: queue)
try await repeatingTick(on: queue)
await timeout(on: queue)
try await retry(on: queue)
try await cancellationHalfWay(on: queue)
