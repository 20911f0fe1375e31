import Foundation
import TestSupport
import Testing
import UV
import UVOperations

@Suite(.timeLimit(.minutes(1)))
struct RetryTests {
  private static let quick = Backoff.constant(.milliseconds(1))

  @Test func eachAttemptIsAFreshOperationUntilOneSucceeds() async throws {
    let made = Collected<Later>()
    let retry = RetryOperation(attempts: 5, backoff: Self.quick) {
      let attempt = Later(0, made.count < 2 ? .failure(Broken()) : .success(7))
      made.append(attempt)
      return attempt
    }
    #expect(try await OperationQueue().run(retry) == 7)
    #expect(made.values.map(\.mains.value) == [1, 1, 1])
  }

  @Test func attemptsAreNumbered() async throws {
    let retry = RetryOperation(attempts: 5, backoff: Self.quick) { number in
      Later(0, number < 4 ? .failure(Broken()) : .success(number))
    }
    #expect(try await OperationQueue().run(retry) == 4)
  }

  @Test func anAttemptThatWasMadeBeforeTraps() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let same = Later(0, .failure(Broken()))
      let retry = RetryOperation(attempts: 3, backoff: Self.quick) { same }
      retry.start()
      _ = await retry.thrown
    }
    let message = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
    #expect(message.contains("RetryOperation<Int> needs a new operation for each attempt"))
  }

  @Test(arguments: [1, 4])
  func theLastFailureIsTheResult(attempts: Int) async {
    struct Failure: Error { let number: Int }
    let made = Counter()
    let retry = RetryOperation<Int>(attempts: attempts, backoff: Self.quick) {
      made.increment()
      return Later(0, .failure(Failure(number: made.value)))
    }
    retry.start()
    #expect((await retry.thrown as? Failure)?.number == attempts)
    #expect(made.value == attempts)
  }

  @Test func anErrorThatIsNotWorthItEndsTheAttempts() async {
    let made = Counter()
    let retry = RetryOperation(attempts: 5, backoff: Self.quick) {
      !($0 is Broken)
    } _: {
      made.increment()
      return Later(0, .failure(Broken()))
    }
    retry.start()
    #expect(await retry.thrown is Broken)
    #expect(made.value == 1)
  }

  @Test func anAttemptThatCannotBeMadeHasFailed() async throws {
    let calls = Counter()
    let retry = RetryOperation(attempts: 3, backoff: Self.quick) {
      calls.increment()
      if calls.value < 3 { throw Broken() }
      return Later(0)
    }
    #expect(try await OperationQueue().run(retry) == 42)
  }

  @Test func anAttemptThatIsCancelledIsNotTriedAgain() async {
    let made = Collected<Stuck>()
    let retry = RetryOperation(attempts: 3, backoff: Self.quick) {
      let attempt = Stuck()
      made.append(attempt)
      return attempt
    }
    retry.start()
    await made.waitUntil(count: 1).first?.cancel()
    #expect(await retry.thrown is CancellationError)
    #expect(made.count == 1)
  }

  @Test func cancellingDuringAnAttemptCancelsIt() async {
    let made = Collected<Stuck>()
    let retry = RetryOperation(attempts: 3, backoff: Self.quick) {
      let attempt = Stuck()
      made.append(attempt)
      return attempt
    }
    OperationQueue().add(retry)
    let attempt = await made.waitUntil(count: 1)[0]
    retry.cancel()
    #expect(await retry.thrown is CancellationError)
    await eventually { attempt.isFinished }
    #expect(attempt.isCancelled && made.count == 1)
  }

  @Test func finishingByHandCancelsTheAttempt() async throws {
    let made = Collected<Stuck>()
    let retry = RetryOperation(attempts: 3, backoff: Self.quick) {
      let attempt = Stuck()
      made.append(attempt)
      return attempt
    }
    retry.start()
    retry.finish(returning: 1)
    #expect(try await retry.value == 1)
    #expect(made.count == 1 && made.values[0].isCancelled)
  }

  @Test(arguments: [false, true])
  func cancellingBetweenAttemptsFinishesAtOnce(byTimeout: Bool) async {
    let made = Counter()
    let retry = RetryOperation(attempts: 3, backoff: .constant(.seconds(3600))) {
      made.increment()
      return Later(0, .failure(Broken()))
    }
    if byTimeout { retry.timeout = .milliseconds(20) }
    retry.start()
    await eventually { made.value == 1 }
    if !byTimeout { retry.cancel() }
    let error = await retry.thrown
    #expect(byTimeout ? error is OperationTimedOut : error is CancellationError)
    #expect(made.value == 1)
  }

  @Test func cancellingAtAnyMomentFinishesOnceAndReleasesEverything() async {
    await onThread {
      let racers = Racers()
      let finishes = Counter()
      let alive = Guarded(0)
      for round in 0..<1_000 {
        let retry = RetryOperation(attempts: 3, backoff: .constant(.microseconds(round % 50))) {
          Tracked(alive)
        }
        retry.whenFinished { finishes.increment() }
        racers.race({ retry.start() }, { retry.cancel() })
        retry.waitUntilFinished()
      }
      while alive.value > 0 || finishes.value < 1_000 { sched_yield() }
      #expect(finishes.value == 1_000)
    }
  }

  private final class Tracked: ResultOperation<Int>, @unchecked Sendable {
    private let alive: Guarded<Int>
    init(_ alive: Guarded<Int>) {
      self.alive = alive
      super.init()
      alive.update { $0 += 1 }
    }
    deinit { alive.update { $0 -= 1 } }
    override func main() { DispatchQueue.global().async { self.finish(throwing: Broken()) } }
  }

  @Test func noAttemptsAtAllTrap() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      _ = RetryOperation(attempts: 0) { Later() }
    }
    let message = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
    #expect(message.contains("at least one attempt"))
  }

  @Test func aConnectIsTriedAgainUntilSomebodyListens() async throws {
    try await withLoop { loop in
      try await withRefusingAddress { address in
        let retry = RetryOperation(attempts: 3, backoff: Self.quick) {
          ConnectOperation(to: address, on: loop)
        }
        retry.start()
        #expect((await retry.thrown as? IOError)?.code == .connectionRefused)
      }
    }
  }
}

struct BackoffTests {
  @Test func waitsGrowUpToTheMaximum() {
    let backoff = Backoff(from: .milliseconds(100), by: 2, upTo: .seconds(1), jitter: 0)
    #expect(delays(backoff, 6) == [0.1, 0.2, 0.4, 0.8, 1, 1])
    #expect(delays(.constant(.seconds(2)), 3) == [2, 2, 2])
  }

  @Test(arguments: [0.5, 1, 7, -1])
  func jitterTakesAPartAway(jitter: Double) {
    let backoff = Backoff(from: .seconds(1), jitter: jitter)
    for _ in 0..<1_000 {
      let delay = backoff.delay(afterAttempt: 2)
      #expect(delay <= .seconds(2) && delay >= .seconds(2 * (1 - min(max(jitter, 0), 1))))
    }
  }

  @Test func strangeValuesNeitherTrapNorOverflow() {
    let never = Duration(secondsComponent: .max, attosecondsComponent: 0)
    #expect(delays(Backoff(from: .seconds(-1), jitter: 0), 3) == [0, 0, 0])
    #expect(delays(Backoff(from: .zero, by: .infinity, jitter: 0), 3) == [0, 0, 0])
    #expect(delays(Backoff(from: .seconds(1), by: .nan, jitter: 0), 2) == [1, 1])
    #expect(delays(Backoff(from: .seconds(1), by: -3, jitter: .nan), 2) == [1, 1])
    #expect(delays(Backoff(from: .seconds(1), upTo: .seconds(-1), jitter: 0), 2) == [0, 0])
    #expect(
      delays(Backoff(from: never, by: 1e300, upTo: never, jitter: 0), 3).allSatisfy { $0 == 1e15 })
    let longest = Duration(attoseconds: .max)
    #expect(delays(Backoff(from: longest, upTo: longest, jitter: 0), 2) == [1e15, 1e15])
    #expect(Backoff().delay(afterAttempt: .max) <= .seconds(30))
    #expect(Backoff().delay(afterAttempt: .min) <= .milliseconds(100))
  }

  private func delays(_ backoff: Backoff, _ count: Int) -> [Double] {
    return (1...count).map { backoff.delay(afterAttempt: $0) / .seconds(1) }
  }
}
