import Foundation
import Synchronization
import TestSupport
import Testing
import UVOperations

/// What has happened to all operations of a test together.
final class Counts: Sendable {
  let made = Counter()
  let finishes = Counter()
  let releases = Counter()
  let completions = Counter()
  let gone = Counter()
  /// Things that happened twice to one operation, or too early.
  let faults = Counter()

  /// Waits for all that is on its way, and expects that each of `finished` operations has ended once and that none is left.
  func expectEachOnce(
    _ finished: Int, made expected: Int? = nil, in queues: OperationQueue...,
    sourceLocation: SourceLocation = #_sourceLocation
  ) async {
    await eventually("everything has ended", sourceLocation: sourceLocation) {
      completions.value >= finished && finishes.value >= finished && gone.value >= made.value
    }
    #expect(made.value == expected ?? finished, sourceLocation: sourceLocation)
    #expect(gone.value == made.value, sourceLocation: sourceLocation)
    #expect(finishes.value == finished, sourceLocation: sourceLocation)
    #expect(releases.value == finished, sourceLocation: sourceLocation)
    #expect(completions.value == finished, sourceLocation: sourceLocation)
    #expect(faults.value == 0, sourceLocation: sourceLocation)
    #expect(queues.allSatisfy { $0.operationCount == 0 }, sourceLocation: sourceLocation)
  }
}

/// What has happened to one operation: counted with all, and looked at by itself.
final class Events: Sendable {
  private let counts: Counts
  private let mains = Atomic<Int>(0)
  private let stops = Atomic<Int>(0)
  private let releases = Atomic<Int>(0)
  private let finishes = Atomic<Int>(0)
  private let completions = Atomic<Int>(0)

  var hasBegun: Bool { mains.load(ordering: .acquiring) > 0 }

  init(_ counts: Counts) {
    self.counts = counts
    counts.made.increment()
  }

  func watch(_ operation: Operation) {
    (operation as? AsynchronousOperation)?.whenFinished { self.finish() }
    operation.completionBlock = { self.once(self.completions, self.counts.completions) }
  }

  func begin() { once(mains) }
  func stop() {
    if !hasBegun { counts.faults.increment() }
    once(stops)
  }
  func release() { once(releases, counts.releases) }
  func finish() { once(finishes, counts.finishes) }
  func vanish() { counts.gone.increment() }

  private func once(_ mine: borrowing Atomic<Int>, _ all: Counter? = nil) {
    if mine.add(1, ordering: .acquiringAndReleasing).oldValue > 0 { counts.faults.increment() }
    all?.increment()
  }
}

/// An operation of ours that is counted. Who finishes it is up to the test.
protocol CountedOperation: AsynchronousOperation {
  var events: Events { get }
  func finishWork()
}

/// Where `main()` has an operation finished.
enum Finishing {
  case byTheTest, inMain, elsewhere

  func act(on operation: any CountedOperation) {
    switch self {
    case .byTheTest: break
    case .inMain: operation.finishWork()
    case .elsewhere: DispatchQueue.global().async { operation.finishWork() }
    }
  }
}

/// Goes on when it is cancelled, until somebody finishes it.
final class CountedWork: AsynchronousOperation, CountedOperation, @unchecked Sendable {
  let events: Events
  private let finishing: Finishing

  init(_ counts: Counts, _ finishing: Finishing) {
    self.finishing = finishing
    events = Events(counts)
    super.init()
    events.watch(self)
  }

  deinit { events.vanish() }

  override func main() {
    events.begin()
    finishing.act(on: self)
  }
  override func didCancel() { events.stop() }
  override func releaseResources() { events.release() }
  func finishWork() { finish() }
}

/// Finishes when it is cancelled.
final class CountedResult: ResultOperation<Int>, CountedOperation, @unchecked Sendable {
  let events: Events
  private let finishing: Finishing

  init(_ counts: Counts, _ finishing: Finishing) {
    self.finishing = finishing
    events = Events(counts)
    super.init()
    events.watch(self)
  }

  deinit { events.vanish() }

  override func main() {
    events.begin()
    finishing.act(on: self)
  }
  override func didCancel() { events.stop() }
  override func releaseResources() { events.release() }
  func finishWork() { finish(returning: 1) }

  /// Whether it was finished by its work, or by a cancel, with what belongs to that.
  var hasSoundEnd: Bool {
    switch result {
    case .success(let output)?: output == 1
    case .failure(let error)?: error is CancellationError && isCancelled
    case nil: false
    }
  }
}

/// One of Foundation's, which counts what it can tell: that its block ran, and that it completed.
final class CountedBlock: BlockOperation, @unchecked Sendable {
  private let events: Events

  init(_ counts: Counts) {
    events = Events(counts)
    super.init()
    addExecutionBlock { [events] in
      events.release()
      events.finish()
    }
    events.watch(self)
  }

  deinit { events.vanish() }
}

/// An operation of ours, of another kind each round.
func makeCounted(
  _ round: Int, _ counts: Counts, _ finishing: Finishing = .byTheTest
) -> any CountedOperation {
  round % 2 == 0 ? CountedWork(counts, finishing) : CountedResult(counts, finishing)
}
