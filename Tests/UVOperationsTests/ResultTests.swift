import Foundation
import TestSupport
import Testing
import UV
import UVOperations

@Suite(.timeLimit(.minutes(1)))
struct ResultTests {
  @Test func handlersRunOnceAndInOrderWheneverAttached() async throws {
    let order = Guarded<[Int]>([])
    let operation = Stuck()
    operation.whenFinished { _ in
      order.update { $0.append(1) }
      operation.whenFinished { order.update { $0.append(4) } }
    }
    operation.whenFinished { order.update { $0.append(2) } }
    operation.start()
    operation.whenFinished { result in order.update { $0.append(isCancellation(result) ? 0 : 3) } }
    operation.finish(returning: 1)
    operation.whenFinished { _ in order.update { $0.append(5) } }
    #expect(order.value == [1, 2, 3, 4, 5])
  }

  @Test func attachingRacesFinish() async {
    await onThread {
      let racers = Racers()
      let calls = Counter()
      for _ in 0..<2_000 {
        let operation = Stuck()
        operation.start()
        racers.race(
          { operation.finish(returning: 1) }, { operation.whenFinished { calls.increment() } })
      }
      #expect(calls.value == 2_000)
    }
  }

  @Test func handlersRunOnTheFinishingThread() async {
    let operation = Stuck()
    operation.start()
    let same = await onThread {
      let seen = Guarded<pthread_t?>(nil)
      operation.whenFinished { seen.update { $0 = pthread_self() } }
      operation.finish(returning: 1)
      return seen.value.map { pthread_equal($0, pthread_self()) != 0 }
    }
    #expect(same == true)
  }

  @Test func outputBeforeTheEndNamesTheOperation() {
    let operation = Later()
    operation.name = "resolve"
    #expect(throws: OperationNotFinished(operation: "resolve")) { try operation.output }
    operation.name = nil
    #expect(throws: OperationNotFinished(operation: "Later")) { try operation.output }
  }

  @Test func manyTasksAwaitOneValue() async throws {
    let operation = Later(5)
    try await withThrowingTaskGroup(of: Int.self) { group in
      for _ in 0..<50 { group.addTask { try await operation.value } }
      operation.start()
      for try await value in group { #expect(value == 42) }
    }
    #expect(try await operation.value == 42)
  }

  @Test func cancellingTheTaskLeavesTheOperationAlone() async throws {
    let operation = Stuck()
    operation.start()
    let task = Task { try await operation.value }
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
    #expect(!operation.isCancelled && operation.isExecuting)
    operation.finish(returning: 1)
    #expect(try await operation.value == 1)
  }

  @Test func cancellingTheTaskRacesFinish() async {
    for _ in 0..<1_000 {
      let operation = Stuck()
      operation.start()
      let task = Task { try await operation.value }
      async let finish: Void = operation.finish(returning: 1)
      task.cancel()
      let result = await task.result
      await finish
      if case .success(let value) = result { #expect(value == 1) }
      #expect(operation.isFinished)
    }
  }

  @Test func aTimeoutFailsAndStopsTheWork() async throws {
    let operation = Stuck()
    operation.name = "connect example.com:80"
    operation.timeout = .milliseconds(20)
    let start = ContinuousClock.now
    operation.start()
    let timedOut = OperationTimedOut(
      operation: "connect example.com:80", timeout: .milliseconds(20))
    await #expect(throws: timedOut) { try await operation.value }
    #expect(ContinuousClock.now - start >= .milliseconds(20))
    #expect(operation.stops.value == 1 && !operation.isCancelled)
    #expect("\(timedOut)" == "connect example.com:80: timed out after 0.02 seconds")
  }

  @Test(arguments: [Duration.seconds(30), .seconds(Int64.max), .seconds(-1)])
  func aTimeoutMayBeAnyDuration(timeout: Duration) async {
    let operation = Body { operation in
      if timeout > .zero { operation.finish(returning: 1) }
    }
    operation.timeout = timeout
    operation.start()
    await operation.finished()
    if timeout > .zero {
      #expect(try! operation.output == 1)
    } else {
      #expect(throws: OperationTimedOut.self) { try operation.output }
    }
  }

  @Test func aTimeoutRacesFinish() async {
    let rounds = 300
    let finishes = Counter()
    for _ in 0..<rounds {
      let operation = Later(1)
      operation.timeout = .milliseconds(1)
      operation.whenFinished { finishes.increment() }
      operation.start()
      await operation.finished()
    }
    await eventually { finishes.value >= rounds }
    #expect(finishes.value == rounds)
  }

  @Test func runEnqueuesBeforeItWaitsAndReturnsTheOutput() async throws {
    let queue = OperationQueue()
    #expect(try await queue.run(Later()) == 42)
    await #expect(throws: Broken()) { try await queue.run(Later(0, .failure(Broken()))) }
  }

  @Test(arguments: [false, true])
  func cancellingTheTaskOfRunCancelsTheOperation(isSuspended: Bool) async {
    let queue = OperationQueue()
    queue.isSuspended = isSuspended
    let operation = Stuck()
    let task = Task { try await queue.run(operation) }
    await eventually { queue.operationCount == 1 && (isSuspended || operation.mains.value == 1) }
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
    #expect(operation.isCancelled && operation.isFinished == !isSuspended)
    queue.isSuspended = false
    await operation.finished()
  }

  @Test func anInputIsEvaluatedOnceAtTheStart() throws {
    let evaluations = Counter()
    let input = OperationInput<Int> {
      evaluations.increment()
      return 7
    }
    #expect(evaluations.value == 0)
    #expect(try input.take() == 7 && evaluations.value == 1)
    input.release()
  }

  @Test func aSecondTakeOfAnInputTraps() async {
    await #expect(processExitsWith: .failure) {
      let input = OperationInput<Int> { 7 }
      input.release()
      _ = try input.take()
    }
  }

  /// Ends its work at once when it hears of a stop, and says so.
  private final class Obedient: ResultOperation<Int>, @unchecked Sendable {
    override func main() {}
    override func didCancel() { finish(returning: 1) }
  }

  enum Work: CaseIterable {
    case obedient, handler, retry, nestedRetry, task

    func make() -> ResultOperation<Int> {
      switch self {
      case .obedient: return Obedient()
      case .handler:
        return Body { operation in operation.onCancel { operation.finish(returning: 1) } }
      case .retry: return RetryOperation(attempts: 3) { Obedient() }
      case .nestedRetry: return RetryOperation(attempts: 3) { Work.retry.make() }
      case .task:
        let block = AsyncBlockOperation(task: { try await Task.sleep(for: .seconds(3600)) })
        return RetryOperation(attempts: 3) {
          block.start()
          let attempt = block.map { 1 }
          attempt.onCancel { block.cancel() }
          return attempt
        }
      }
    }
  }

  /// What the work says when it is told to stop is no result.
  @Test(arguments: Work.allCases, [false, true])
  func aStoppedOperationEndsWithTheReasonOfTheStop(work: Work, byTimeout: Bool) async {
    let operation = work.make()
    if byTimeout { operation.timeout = .milliseconds(20) }
    operation.start()
    if !byTimeout { operation.cancel() }
    let error = await operation.thrown
    #expect(byTimeout ? error is OperationTimedOut : error is CancellationError)
  }

  @Test func errorsSayTheSameInFoundationsWords() {
    let errors: [any Error] = [
      OperationTimedOut(operation: "read", timeout: .seconds(1)),
      OperationNotFinished(operation: "read"), GroupFailed(errors: [Broken()]),
      OperationAbandoned(operation: "send", file: "a.swift", line: 1),
      IOError(.connectionRefused, "connect", "127.0.0.1:1"), StreamClosed("read"),
      ConcurrentRead(), EventLoopClosed(), TimedOut(limit: .seconds(1)),
      LineTooLong(subject: "127.0.0.1:1", limit: 80), FileClosed("read", "a"),
      IncompleteRead(subject: "127.0.0.1:1", expected: 2, available: 1),
      ThreadPoolInUse(size: 4), NotAFileURL(url: URL(string: "ftp://a")!),
    ]
    for error in errors { #expect(error.localizedDescription == "\(error)") }
  }
}
