import Foundation
import Glibc
import Locking
import TestSupport
import UV

/// What `EventLoop.main` promises, each in a process of its own whose main thread it may have.
enum Scenario: String {
  case everythingRunsOnTheMainThread
  case stopFromAnotherThreadEndsAnIdleRun
  case whatWasNotFinishedGoesOnInTheNextRun
  case signalsArriveOnTheMainThread
  case streamsWorkOnTheMainLoop
  // These must trap.
  case aNestedRunTraps
  case aRunOffTheMainThreadTraps
  case aRunOfAnotherLoopTraps
  case aStopOfAnotherLoopTraps
  case shuttingDownTheMainLoopTraps

  func run() throws {
    switch self {
    case .everythingRunsOnTheMainThread: try runEverything()
    case .stopFromAnotherThreadEndsAnIdleRun: try stopFromAnotherThread()
    case .whatWasNotFinishedGoesOnInTheNextRun: try goesOnInTheNextRun()
    case .signalsArriveOnTheMainThread: try observeSignals()
    case .streamsWorkOnTheMainLoop: streamsWork()
    case .aNestedRunTraps:
      try EventLoop.main.execute { EventLoop.main.run() }
      EventLoop.main.run()
    case .aRunOffTheMainThreadTraps:
      Thread.detachNewThread { EventLoop.main.run() }
      EventLoop.main.run()
    case .aRunOfAnotherLoopTraps: try EventLoop().run()
    case .aStopOfAnotherLoopTraps: try EventLoop().stop()
    case .shuttingDownTheMainLoopTraps:
      Thread.detachNewThread { EventLoop.main.shutdownAndWait() }
      EventLoop.main.run()
    }
  }
}

private func runEverything() throws {
  let seen = Lock<Set<String>>([])
  let arrive = { @Sendable (what: String) in
    check(Thread.isMainThread && EventLoop.main.isCurrent, "\(what) runs on the main thread")
    let count = seen.withLock { seen in
      seen.insert(what)
      return seen.count
    }
    if count == 8 { EventLoop.main.stop() }
  }
  check(EventLoop.main.isCurrent, "the main thread is the loop's before it runs")
  DispatchQueue.main.async { arrive("a block of DispatchQueue.main") }
  OperationQueue.main.addOperation { arrive("an operation of OperationQueue.main") }
  Task { @MainActor in
    arrive("a task of the main actor")
    try await EventLoop.main.sleep(for: .milliseconds(2))
    arrive("a task of the main actor that slept")
  }
  Task(executorPreference: EventLoop.main) { arrive("a task that prefers the main loop") }
  try EventLoop.main.schedule(after: .milliseconds(2)) { arrive("a timer") }
  try EventLoop.main.execute { arrive("a body") }
  Thread.detachNewThread {
    DispatchQueue.main.async { arrive("a block of DispatchQueue.main from another thread") }
  }
  EventLoop.main.run()
  check(seen.withLock { $0.count } == 8, "all have run")
}

private func stopFromAnotherThread() throws {
  for _ in 0..<500 {
    // In the run, so that it has begun; mostly it is in its poll when the stop comes.
    try EventLoop.main.execute { Thread.detachNewThread { EventLoop.main.stop() } }
    EventLoop.main.run()
  }
  EventLoop.main.stop()  // Nothing runs: it is for the next run.
  EventLoop.main.run()
}

private func goesOnInTheNextRun() throws {
  let order = Collected<String>()
  try EventLoop.main.schedule(after: .milliseconds(30)) {
    order.append("timer")
    EventLoop.main.stop()
  }
  try EventLoop.main.execute {
    order.append("first run")
    EventLoop.main.stop()
  }
  EventLoop.main.run()
  check(order.values == ["first run"], "the timer waits: \(order.values)")
  DispatchQueue.main.async { order.append("between the runs") }
  EventLoop.main.run()
  check(order.values == ["first run", "between the runs", "timer"], "all go on: \(order.values)")
}

private func observeSignals() throws {
  let count = Tally()
  let observer = try EventLoop.main.observe(.user1) { signal in
    check(Thread.isMainThread, "the observer is called on the main thread")
    if count.add() == 10 { EventLoop.main.stop() } else { kill(getpid(), signal.rawValue) }
  }
  kill(getpid(), SIGUSR1)
  EventLoop.main.run()
  check(count.value == 10, "every signal was seen")
  observer.cancel()
}

private func streamsWork() {
  Task { @MainActor in
    try await TCPListener.withListener(on: .loopback(port: 0), loop: .main) { listener in
      async let accepted = listener.accept()
      let near = try await TCPStream.connect(to: listener.localAddress, loop: .main)
      let far = try await accepted
      try await near.write("ping")
      check(try await far.read() == Array("ping".utf8), "the bytes have arrived")
      near.abort()
      far.abort()
    }
    EventLoop.main.stop()
  }
  EventLoop.main.run()
}
