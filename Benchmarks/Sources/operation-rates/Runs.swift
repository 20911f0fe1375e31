import Foundation
import UV
import UVOperations

/// How many operations are in flight where there are many.
let width = 64

/// `width` operations in flight in an ordinary queue, or fewer: each one's `completionBlock`, or another handler, adds the next.
func chained<Kind: Operation>(
  _ total: Int, inFlight width: Int = width, make: @escaping @Sendable () -> Kind,
  handle: @escaping @Sendable (Kind, @escaping @Sendable () -> Void) -> Void = {
    $0.completionBlock = $1
  }
) -> Duration {
  let queue = OperationQueue()
  let ended = DispatchSemaphore(value: 0)
  let relay = Relay(of: total) { relay in
    let operation = make()
    handle(operation) { relay.operationDidFinish() }
    queue.addOperation(operation)
  } end: {
    ended.signal()
  }
  return relay.time(inFlight: width) { ended.wait() }
}

/// `width` operations are added to an ordinary queue, and when all have finished the next: no `completionBlock` takes part.
func batched(_ total: Int, make: () -> Operation) -> Duration {
  let queue = OperationQueue()
  var finished = 0
  let time = ContinuousClock().measure {
    while finished < total {
      let batch = (0..<min(width, total - finished)).map { _ in make() }
      queue.addOperations(batch, waitUntilFinished: true)
      finished += batch.count { $0.isFinished }
    }
  }
  check(finished == total, "\(finished) operations of \(total) have finished")
  return time
}

/// One visit after the other: each one's `whenFinished`, on the thread that finishes it, begins the next.
func oneAtATime(
  _ total: Int, on loop: EventLoop, begin: @escaping @Sendable (LoopVisit) -> Void
) -> Duration {
  let ended = DispatchSemaphore(value: 0)
  let relay = Relay(of: total) { relay in
    let visit = LoopVisit(to: loop)
    visit.whenFinished { relay.operationDidFinish() }
    begin(visit)
  } end: {
    if loop === EventLoop.main { loop.stop() } else { ended.signal() }
  }
  return relay.time(inFlight: 1) {
    if loop === EventLoop.main { loop.run() } else { ended.wait() }
  }
}

/// A run on a loop of its own.
func withLoop(_ total: Int, run: (EventLoop) -> Duration) -> Duration {
  do {
    let loop = try EventLoop()
    let time = run(loop)
    loop.shutdownAndWait()
    check(loop.statistics.jobsRun >= total, "not every operation went to the loop")
    return time
  } catch {
    fail("\(error)")
  }
}

/// A run on the main thread's loop.
func withMainLoop(_ total: Int, run: (EventLoop) -> Duration) -> Duration {
  let before = EventLoop.main.statistics.jobsRun
  let time = run(.main)
  let jobs = EventLoop.main.statistics.jobsRun - before
  check(jobs >= total, "not every operation went to the loop")
  return time
}
