import Foundation
import TestSupport
import UV
import UVOperations

/// Operations on a queue of the main loop.
enum Operations: String {
  case operationsRunOnTheMainThreadInOrder
  case operationsThatKeepAddingOthersLeaveTimersAndBlocksTheirTurns
  case operationsGoOnInTheNextRun
  case aQueueThatIsSuspendedBelowWaitsForItsResumption

  func run() throws {
    switch self {
    case .operationsRunOnTheMainThreadInOrder: runInOrder()
    case .operationsThatKeepAddingOthersLeaveTimersAndBlocksTheirTurns: try keepAdding()
    case .operationsGoOnInTheNextRun: goOnInTheNextRun()
    case .aQueueThatIsSuspendedBelowWaitsForItsResumption: try suspendBelow()
    }
  }
}

private func runInOrder() {
  let queues = [OperationQueue(on: .main), OperationQueue(on: .main)]
  let order = Collected<Int>()
  for number in 0..<1_000 {
    queues[number % 2].addOperation {
      check(Thread.isMainThread && EventLoop.main.isCurrent, "it runs on the main thread")
      dispatchPrecondition(condition: .onQueue(.main))
      MainActor.assumeIsolated { order.append(number) }
    }
  }
  queues[0].addOperation { EventLoop.main.stop() }
  EventLoop.main.run()
  check(order.values == Array(0..<1_000), "they run in the order in which they were added")
}

private func keepAdding() throws {
  let queue = OperationQueue(on: .main)
  let isOver = Event()
  @Sendable func addAnother() {
    queue.addOperation { if !isOver.isSet { addAnother() } }
  }
  addAnother()
  let ticks = Tally()
  try EventLoop.main.schedule(every: .milliseconds(1)) { timer in
    guard ticks.add() == 20 else { return }
    timer.cancel()
    DispatchQueue.main.async {
      isOver.set()
      EventLoop.main.stop()
    }
  }
  EventLoop.main.run()
}

private func goOnInTheNextRun() {
  let queue = OperationQueue(on: .main)
  let order = Collected<String>()
  queue.addOperation {
    order.append("first")
    EventLoop.main.stop()
    queue.addOperation {
      order.append("second")
      EventLoop.main.stop()
    }
  }
  EventLoop.main.run()
  check(order.values == ["first"], "the second waits: \(order.values)")
  EventLoop.main.run()
  check(order.values == ["first", "second"], "it goes on: \(order.values)")
}

private func suspendBelow() throws {
  let queue = OperationQueue(on: .main)
  queue.underlyingQueue!.suspend()
  let order = Collected<String>()
  queue.addOperation {
    order.append("operation")
    EventLoop.main.stop()
  }
  try EventLoop.main.schedule(after: .milliseconds(5)) {
    order.append("timer")
    queue.underlyingQueue!.resume()
  }
  for _ in 0..<3 { DispatchQueue.main.async {} }
  EventLoop.main.run()
  check(order.values == ["timer", "operation"], "it has waited: \(order.values)")
}
