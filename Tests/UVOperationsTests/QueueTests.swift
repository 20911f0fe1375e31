import Foundation
import TestSupport
import Testing
import UV
import UVOperations

@Suite(.timeLimit(.minutes(1)))
struct QueueTests {
  enum Wait: CaseIterable { case forAll, forAdded, forEach }

  enum SecondUse: String, CaseIterable, Codable { case add, run, results, group, afterStart }

  @Test(arguments: SecondUse.allCases)
  func anOperationThatIsQueuedTwiceIsNamed(_ use: SecondUse) async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      [use] in
      let queue = OperationQueue()
      let operation = WorkOperation { 1 }
      operation.name = "the one"
      if use == .afterStart { operation.start() } else { queue.add(operation) }
      switch use {
      case .add, .afterStart: queue.add(operation)
      case .run: _ = try await queue.run(operation)
      case .results: for await _ in queue.results(of: [operation]) {}
      case .group: try await OperationQueue().run(GroupOperation(operation))
      }
    }
    let message = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
    #expect(message.contains("the one is in a queue already, or was"))
  }

  @Test func aTimeoutThatIsSetTooLateIsReported() async throws {
    let result = await #expect(processExitsWith: .success, observing: [\.standardErrorContent]) {
      let operation = TimerOperation(after: .milliseconds(1))
      operation.name = "pause"
      operation.timeout = .seconds(3_600)
      operation.start()
      operation.timeout = .seconds(1)
      try await operation.value
    }
    let message = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
    #expect(
      message == "swift-uv: the timeout of pause was set after its start and has no effect\n")
  }

  @Test(arguments: Wait.allCases)
  func waitingEndsWhenEverythingHasFinished(wait: Wait) async {
    await onThread {
      for _ in 0..<20 {
        let queue = OperationQueue()
        let operations: [Operation] = (0..<6).map { $0 % 2 == 0 ? Later(5) : BlockOperation {} }
        switch wait {
        case .forAll:
          for operation in operations { queue.addOperation(operation) }
          queue.waitUntilAllOperationsAreFinished()
        case .forAdded: queue.addOperations(operations, waitUntilFinished: true)
        case .forEach:
          for operation in operations { queue.addOperation(operation) }
          for operation in operations { operation.waitUntilFinished() }
        }
        #expect(operations.allSatisfy { $0.isFinished })
      }
    }
  }

  @Test(arguments: [1, 4])
  func theLimitIsKeptAndUsed(limit: Int) async {
    let running = Guarded((now: 0, most: 0))
    let queue = OperationQueue()
    queue.maxConcurrentOperationCount = limit
    let operations = (0..<40).map { _ in
      Body { operation in
        running.update { $0 = ($0.now + 1, max($0.most, $0.now + 1)) }
        DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(5)) {
          running.update { $0.now -= 1 }
          operation.finish(returning: 1)
        }
      }
    }
    await onThread { queue.addOperations(operations, waitUntilFinished: true) }
    #expect(running.value.most == limit && running.value.now == 0)
  }

  @Test func addingFromManyThreadsLosesNothing() async {
    let queue = OperationQueue()
    queue.maxConcurrentOperationCount = 1
    let finishes = Counter()
    await onThread {
      DispatchQueue.concurrentPerform(iterations: 8) { _ in
        for _ in 0..<100 {
          let operation = Later(0)
          operation.whenFinished { finishes.increment() }
          queue.addOperation(operation)
        }
      }
      queue.waitUntilAllOperationsAreFinished()
    }
    await eventually { finishes.value == 800 }
  }

  @Test func operationsThatFailAtOnceGiveTheirPlaceBack() async {
    let queue = OperationQueue()
    queue.maxConcurrentOperationCount = 2
    let operations = (0..<500).map { index in
      Body { operation in
        if index % 3 == 0 { return operation.finish(throwing: Broken()) }
        DispatchQueue.global().async { operation.finish(returning: index) }
      }
    }
    await onThread { queue.addOperations(operations, waitUntilFinished: true) }
    #expect(operations.count { (try? $0.output) == nil } == 167)
    await eventually { queue.operationCount == 0 }
  }

  /// One at a time: Foundation changes the progress's set of children on whatever thread an operation starts on.
  @Test func progressAdvances() async {
    let queue = OperationQueue()
    queue.maxConcurrentOperationCount = 1
    queue.progress.totalUnitCount = 20
    await onThread {
      queue.addOperations((0..<20).map { Later($0 % 3) }, waitUntilFinished: true)
    }
    #expect(queue.progress.completedUnitCount == 20 && queue.progress.isFinished)
  }

  @Test func waitingOperationsHoldNoThread() async {
    let queue = OperationQueue()
    let operations = (0..<500).map { _ in Manual() }
    await onThread { queue.addOperations(operations, waitUntilFinished: false) }
    await eventually { operations.allSatisfy { $0.mains.value == 1 } }
    // All of them wait now. Other tests have threads too, but not so many.
    #expect(threadCount() < 500)
    for operation in operations { operation.finish() }
  }

  private func threadCount() -> Int {
    let status = try! String(contentsOfFile: "/proc/self/status", encoding: .utf8)
    let line = status.split(separator: "\n").first { $0.hasPrefix("Threads:") }!
    return Int(line.split(separator: "\t").last!)!
  }

  @Test func aPlainSubclassRunsBesideOurs() async {
    final class Plain: Operation, @unchecked Sendable {
      let mains = Counter()
      override func main() { mains.increment() }
    }
    let plain = Plain()
    let queue = OperationQueue()
    queue.add(plain, Later())
    await plain.finished()
    #expect(plain.mains.value == 1)
  }

  // MARK: Bridges

  @Test func resultsComeInTheOrderInWhichTheOperationsFinish() async throws {
    let operations = (0..<3).map { _ in Stuck() }
    let results = OperationQueue().results(of: operations)
    await eventually { operations.allSatisfy(\.isExecuting) }
    operations[2].finish(returning: 2)
    operations[0].finish(throwing: Broken())
    operations[1].finish(returning: 1)
    var outputs: [Int?] = []
    for await result in results { outputs.append(try? result.get()) }
    #expect(outputs == [2, nil, 1])
  }

  @Test func resultsOfNothingEndAtOnce() async {
    for await _ in OperationQueue().results(of: [Later]()) { Issue.record("there is none") }
  }

  @Test(arguments: [false, true])
  func endingTheIterationCancelsTheRest(byTask: Bool) async {
    let operations = (0..<5).map { _ in Stuck() }
    let task = Task {
      for await _ in OperationQueue().results(of: operations) { if !byTask { break } }
    }
    await eventually { operations.allSatisfy(\.isExecuting) }
    if byTask { task.cancel() } else { operations[0].finish(returning: 1) }
    await task.value
    await eventually { operations.allSatisfy(\.isFinished) }
    #expect(operations.dropFirst().allSatisfy { $0.isCancelled })
  }

  @Test func waitingAsyncEndsWhenTheQueueIsEmpty() async {
    let queue = OperationQueue()
    await queue.waitUntilEmpty()
    let added = Later(5)
    let operations = (0..<50).map { Later($0 % 5) }
    operations[49].whenFinished { queue.add(added) }
    for operation in operations { queue.add(operation, BlockOperation {}) }
    await queue.waitUntilEmpty()
    #expect(operations.allSatisfy(\.isFinished) && queue.operationCount == 0)
  }

  /// Foundation by itself sometimes overlooks that the last of them has finished.
  @Test func waitingAsyncForFoundationsOperationsAlwaysEnds() async {
    let queue = OperationQueue()
    for round in 0..<3_000 {
      for _ in 0..<4 {
        queue.addOperation { for _ in 0..<(round % 300) { _ = getppid() } }
      }
      await queue.waitUntilEmpty()
      #expect(queue.operationCount == 0)
    }
  }

  @Test func resultsOfOneLoopDoNotPassEachOther() async throws {
    try await withLoop { loop in
      let finishedOnLoop = Collected<Int>()
      let operations = (1...2_000).map { ResolveOperation("127.0.0.1", port: $0, on: loop) }
      for (index, operation) in operations.enumerated() {
        // One whose main() has not returned yet is finished by the thread that started it.
        operation.addHandler(waiter: finishedOnLoop) { _ in
          if loop.isCurrent { finishedOnLoop.append(index + 1) }
        }
      }
      var ports: [Int] = []
      for await result in OperationQueue().results(of: operations) {
        ports += try result.get().compactMap(\.port)
      }
      #expect(ports.sorted() == Array(1...2_000) && !finishedOnLoop.values.isEmpty)
      let others = Set(ports).subtracting(finishedOnLoop.values)
      #expect(ports.filter { !others.contains($0) } == finishedOnLoop.values)
    }
  }
}
