import Foundation
import TestSupport
import Testing
import UVOperations

@Suite(.timeLimit(.minutes(1)))
struct ChainingTests {
  @Test func aMappedOutputFlowsOn() async throws {
    let queue = OperationQueue()
    let number = Later(5)
    let text = number.map { "\($0)" }
    let length = text.map { $0.count }
    queue.add(length, text, number)
    #expect(try await length.value == 2)
    #expect(try text.output == "42")
  }

  @Test func whatTheTransformThrowsIsTheFailure() async {
    let number = Later()
    let mapped = number.map { _ -> String in throw Broken() }
    OperationQueue().add(number, mapped)
    #expect(await mapped.thrown is Broken)
  }

  @Test(arguments: [false, true])
  func aFailureFailsWhatIsMappedWithoutATransform(isCancelled: Bool) async {
    let calls = Counter()
    let number = Later(0, .failure(Broken()))
    let mapped = number.map { _ in calls.increment() }
    if isCancelled { number.cancel() }
    OperationQueue().add(number, mapped)
    let error = await mapped.thrown
    #expect(isCancelled ? error is CancellationError : error is Broken)
    #expect(calls.value == 0)
  }

  @Test(arguments: [Result<Int, any Error>.success(1), .failure(Broken())])
  func recoveringGoesOnInSpiteOfAFailure(result: Result<Int, any Error>) async throws {
    let number = Later(0, result)
    let recovered = number.recover { error in
      #expect(error is Broken)
      return 2
    }
    OperationQueue().add(number, recovered)
    #expect(try await recovered.value == ((try? result.get()) ?? 2))
  }

  @Test func recoveringSeesACancellationAndMayFail() async {
    let number = Later()
    let recovered = number.recover { throw $0 is CancellationError ? Broken() : $0 }
    number.cancel()
    OperationQueue().add(number, recovered)
    #expect(await recovered.thrown is Broken)
  }

  @Test func aChainIsReleasedAtTheEnd() async throws {
    weak var first: Later?
    weak var last: ResultOperation<String>?
    do {
      let number = Later()
      let text = number.map { "\($0)" }.recover { "\($0)" }
      (first, last) = (number, text)
      let middle = text.dependencies
      OperationQueue().add([number, text] + middle)
      #expect(try await text.value == "42")
    }
    await eventually { first == nil && last == nil }
  }

  @Test func oneThatIsNeverStartedIsReleased() async {
    weak var first: Later?
    weak var mapped: ResultOperation<Int>?
    do {
      let number = Later()
      (first, mapped) = (number, number.map { $0 + 1 })
    }
    await eventually { first == nil && mapped == nil }
  }

  @Test func aVeryLongChainThatNeverRanIsReleased() async {
    weak var first: Later?
    do {
      let source = Later()
      var last = source.map { $0 }
      first = source
      for _ in 0..<20_000 { last = last.map { $0 } }
    }
    await eventually { first == nil }
  }

  @Test(arguments: [false, true])
  func cancellingTheAwaitingTaskCancelsTheOperationOnlyIfAskedTo(isAsked: Bool) async {
    let operation = Stuck()
    operation.start()
    let task = Task { try await operation.value(cancellingOperation: isAsked) }
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
    await eventually { operation.isFinished == isAsked }
    #expect(operation.isCancelled == isAsked)
    operation.finish(returning: 1)
  }
}
