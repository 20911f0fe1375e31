import Foundation
import TestSupport
import Testing
import UV
import UVOperations

/// An operation of each kind that does not end by itself, and everything it needs for that.
enum Waiting: CaseIterable {
  case timer, resolve, connect, accept, read, write, shutdown, close

  func withOperation(_ body: (any EndingOperation, EventLoop) async throws -> Void) async throws {
    switch self {
    case .resolve:
      try await withFullThreadPool {
        try await withLoop { loop in
          try await body(ResolveOperation("localhost", port: 80, on: loop), loop)
        }
      }
    case .connect:
      try await withSilentAddress { address, loop in
        let connect = ConnectOperation(to: address, on: loop)
        connect.timeout = nil
        try await body(connect, loop)
      }
    case .timer, .accept, .read:
      try await withPair { pair in try await body(operation(pair), pair.loop) }
    case .write, .shutdown, .close:
      try await withPair { pair in
        if self != .write {
          let write = WriteOperation(moreThanTheSystemTakes, to: pair.near)
          write.start()
          await eventually { pair.near.bytesQueued > 0 }
        }
        try await body(operation(pair), pair.loop)
      }
    }
  }

  private func operation(_ pair: Pair) -> any EndingOperation {
    switch self {
    case .timer, .resolve, .connect: TimerOperation(after: .seconds(3_600), on: pair.loop)
    case .accept: AcceptOperation(from: pair.listener)
    case .read: ReadOperation(from: pair.near)
    case .write: WriteOperation(moreThanTheSystemTakes, to: pair.near)
    case .shutdown: ShutdownOperation(pair.near)
    case .close: CloseOperation(pair.near, within: .seconds(3_600))
    }
  }
}

protocol EndingOperation: AsynchronousOperation {
  var thrown: (any Error)? { get async }
}
extension ResultOperation: EndingOperation {}

/// What holds for every operation that a loop finishes.
@Suite(.timeLimit(.minutes(1)))
struct LoopOperationTests {
  @Test(arguments: Waiting.allCases)
  func aCancelOnTheLoopReachesARequestThatIsStillOnItsWay(kind: Waiting) async throws {
    try await kind.withOperation { operation, loop in
      try await loop.run {
        waitForAnotherThread { operation.start() }
        operation.cancel()
      }
      #expect(await operation.thrown is CancellationError)
    }
  }

  @Test func aTimeoutNeedsNoDescriptor() async throws {
    await #expect(processExitsWith: .success) {
      try await withPair { pair in
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        var none = limit
        none.rlim_cur = 3
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &none)
        let read = ReadOperation(from: pair.near)
        read.timeout = .milliseconds(10)
        read.start()
        let error = await read.thrown
        precondition(error is OperationTimedOut)
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
      }
    }
  }

  @Test func aTimeoutThatIsStillOnItsWayLeavesNoTimer() async throws {
    try await withListener { listener in
      let loop = listener.loop
      let accept = AcceptOperation(from: listener)
      accept.timeout = .seconds(3_600)
      try await loop.run {
        waitForAnotherThread { accept.start() }
        accept.cancel()
      }
      #expect(await accept.thrown is CancellationError)
      await eventually("the listener is alone") { loop.statistics.handles == 1 }
    }
  }

  @Test(arguments: Waiting.allCases)
  func cancellingARunningOperationLetsASerialQueueGoOn(kind: Waiting) async throws {
    try await kind.withOperation { operation, loop in
      let queue = OperationQueue()
      queue.maxConcurrentOperationCount = 1
      let next = Body { $0.finish(returning: 1) }
      queue.add(operation, next)
      await eventually { operation.isExecuting }
      try await loop.run {}
      #expect(!operation.isFinished && !next.isExecuting)
      operation.cancel()
      #expect(try await next.value == 1)
      #expect(operation.isFinished)
      #expect(await operation.thrown is CancellationError)
    }
  }

  @Test(arguments: Waiting.allCases)
  func anOperationCancelledBeforeItsStartDoesNothing(kind: Waiting) async throws {
    try await kind.withOperation { operation, loop in
      operation.cancel()
      OperationQueue().add(operation)
      #expect(await operation.thrown is CancellationError)
    }
  }

  @Test(arguments: Waiting.allCases)
  func theEndOfTheLoopEndsEveryOperation(kind: Waiting) async throws {
    try await kind.withOperation { operation, loop in
      let queue = OperationQueue()
      queue.add(operation)
      await eventually { operation.isExecuting }
      try await loop.run {}
      await loop.shutdown()
      await onThread { queue.waitUntilAllOperationsAreFinished() }
      // Closing is what happened, so that did not fail.
      if kind != .close { #expect(await operation.thrown is EventLoopClosed) }
    }
  }

  @Test(arguments: Waiting.allCases)
  func anOperationThatIsStartedOnALoopThatEndedFails(kind: Waiting) async throws {
    try await kind.withOperation { operation, loop in
      await loop.shutdown()
      operation.start()
      #expect(await operation.thrown is EventLoopClosed)
    }
  }

  @Test(arguments: Waiting.allCases, [false, true])
  func handlersRunOnTheLoopThreadOnlyIfTheOperationStartedThere(
    kind: Waiting, startsOnLoop: Bool
  ) async throws {
    try await kind.withOperation { operation, loop in
      let ran = Guarded<Bool?>(nil)
      operation.whenFinished { ran.update { $0 = loop.isCurrent } }
      if startsOnLoop {
        try await loop.run { operation.start() }
      } else {
        operation.start()
      }
      try await loop.run {}
      #expect(operation.isExecuting)
      operation.cancel()
      await eventually { ran.value != nil }
      #expect(ran.value == startsOnLoop)
    }
  }

  @Test(arguments: [false, true])
  func handlersOfASuccessKeepToTheirThreadToo(startsOnLoop: Bool) async throws {
    try await withLoop { loop in
      let timer = TimerOperation(after: .zero, on: loop)
      let order = Guarded<[Int]>([])
      let ranOnLoop = Guarded<[Bool]>([])
      for index in 0..<20 {
        timer.whenFinished {
          order.update { $0.append(index) }
          ranOnLoop.update { $0.append(loop.isCurrent) }
        }
      }
      if startsOnLoop { try loop.execute { timer.start() } } else { timer.start() }
      await eventually { ranOnLoop.value.count == 20 }
      #expect(ranOnLoop.value.allSatisfy { $0 == startsOnLoop })
      #expect(order.value == Array(0..<20))
    }
  }

  /// The queue asks for readiness, and starts dependents, on a thread of its own.
  @Test func dependentsOfAnOperationDoNotRunOnTheLoopThread() async throws {
    try await withLoop { loop in
      let timer = TimerOperation(after: .milliseconds(1), on: loop)
      let dependent = Body { $0.finish(returning: loop.isCurrent ? 1 : 0) }
      dependent.addDependency(timer)
      OperationQueue().add(timer, dependent)
      let ranOnLoop = try await dependent.value
      #expect(ranOnLoop == 0)
    }
  }

  @Test func waitingOnTheLoopThreadTraps() async {
    await #expect(processExitsWith: .failure) {
      let loop = try EventLoop()
      let timer = TimerOperation(after: .seconds(3_600), on: loop)
      timer.start()
      try await loop.run { timer.waitUntilFinished() }
      exit(0)
    }
  }

  @Test func waitingOnTheLoopThreadForWhatHasFinishedIsFine() async throws {
    try await withLoop { loop in
      let timer = TimerOperation(after: .zero, on: loop)
      timer.start()
      try await timer.value
      try await loop.run { timer.waitUntilFinished() }
    }
  }

  @Test func waitingOnAnotherThreadReturns() async throws {
    try await withLoop { loop in
      let timer = TimerOperation(after: .milliseconds(1), on: loop)
      timer.start()
      await onThread { timer.waitUntilFinished() }
      #expect(timer.isFinished)
    }
  }

  @Test func operationsThatFailAtOnceKeepNoSlot() async throws {
    try await withPair { pair in
      pair.queue.maxConcurrentOperationCount = 2
      await pair.far.close()
      let operations: [any EndingOperation] = (0..<500).map { index in
        index % 3 == 0
          ? WriteOperation("late", to: pair.far) : TimerOperation(after: .zero, on: pair.loop)
      }
      for operation in operations { pair.queue.addOperation(operation) }
      await onThread { pair.queue.waitUntilAllOperationsAreFinished() }
      for (index, operation) in operations.enumerated() {
        let error = await operation.thrown
        if index % 3 == 0 { #expect(error is StreamClosed) } else { #expect(error == nil) }
      }
    }
  }

  @Test func shuttingDownEndsThousandsOfOperations() async throws {
    let queue = OperationQueue()
    queue.maxConcurrentOperationCount = 1_000
    try await withLoop { loop in
      let operations = (0..<2_000).map { _ in TimerOperation(after: .seconds(3_600), on: loop) }
      for timer in operations { queue.addOperation(timer) }
      await eventually { operations.contains(where: \.isExecuting) }
      await loop.shutdown()
      await onThread { queue.waitUntilAllOperationsAreFinished() }
      for timer in operations { #expect(await timer.thrown is EventLoopClosed) }
    }
  }

  /// A timeout that reaches the loop among its last jobs must not keep it.
  @Test func shuttingDownNeverWaitsForATimeout() async throws {
    for round in 0..<1_000 {
      let loop = try EventLoop()
      let starting = DispatchGroup()
      for _ in 0..<2 {
        DispatchQueue.global().async(group: starting) {
          for _ in 0..<8 {
            let timer = TimerOperation(after: .seconds(7_200), on: loop)
            timer.timeout = .seconds(3_600)
            timer.start()
          }
        }
      }
      for _ in 0..<(round % 400) { _ = getppid() }
      await loop.shutdown()
      await withUnsafeContinuation { continuation in
        starting.notify(queue: .global()) { continuation.resume() }
      }
    }
  }
}
