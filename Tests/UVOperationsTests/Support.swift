import Foundation
import Synchronization
import Testing
import UVOperations

/// A number that threads count up together.
final class Counter: Sendable {
  private let count = Atomic<Int>(0)
  var value: Int { count.load(ordering: .acquiring) }
  func increment() { count.add(1, ordering: .acquiringAndReleasing) }
}

/// A value behind a lock that the thread sanitizer understands.
final class Guarded<Value: Sendable>: @unchecked Sendable {
  private let lock = NSLock()
  private var guarded: Value
  init(_ value: Value) { guarded = value }
  var value: Value { lock.withLock { guarded } }
  func update(_ body: (inout Value) -> Void) { lock.withLock { body(&guarded) } }
}

struct Broken: Error, Hashable {}

/// Finishes with `answer` some milliseconds after it was started, on a global queue.
final class Later: ResultOperation<Int>, @unchecked Sendable {
  let mains = Counter()
  let stops = Counter()
  private let answer: Result<Int, any Error>
  private let milliseconds: Int
  private let duringMain: (@Sendable (Later) -> Void)?

  init(
    _ milliseconds: Int = 1, _ answer: Result<Int, any Error> = .success(42),
    duringMain: (@Sendable (Later) -> Void)? = nil
  ) {
    self.milliseconds = milliseconds
    self.answer = answer
    self.duringMain = duringMain
  }

  override func main() {
    mains.increment()
    duringMain?(self)
    let answer = answer
    DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(milliseconds)) {
      self.finish(answer)
    }
  }

  override func didCancel() { stops.increment() }
}

/// Finishes when the test says so.
final class Manual: AsynchronousOperation, @unchecked Sendable {
  let mains = Counter()
  let stops = Counter()
  override func main() { mains.increment() }
  override func didCancel() { stops.increment() }
}

/// Never finishes by itself, but has a result.
final class Stuck: ResultOperation<Int>, @unchecked Sendable {
  let mains = Counter()
  let stops = Counter()
  override func main() { mains.increment() }
  override func didCancel() { stops.increment() }
}

/// Calls a block that finishes it, or not.
final class Body: ResultOperation<Int>, @unchecked Sendable {
  private let body: Guarded<(@Sendable (Body) -> Void)?>
  init(_ body: @escaping @Sendable (Body) -> Void) { self.body = Guarded(body) }
  override func main() { body.value?(self) }
  override func releaseResources() { body.update { $0 = nil } }
}

/// Runs blocking code on a thread of its own, because async code must not block.
func onThread<T: Sendable>(_ body: @escaping @Sendable () -> T) async -> T {
  await withCheckedContinuation { continuation in
    Thread { continuation.resume(returning: body()) }.start()
  }
}

/// Two threads that run pairs of blocks at the same moment, for races.
final class Racers: Sendable {
  private let arrivals = Atomic<Int>(0)
  private let other = DispatchQueue(label: "racer")

  /// Returns when both have run. Call on a plain thread.
  func race(_ first: () -> Void, _ second: @escaping @Sendable () -> Void) {
    arrivals.store(0, ordering: .sequentiallyConsistent)
    let done = DispatchSemaphore(value: 0)
    other.async {
      self.arrive()
      second()
      done.signal()
    }
    arrive()
    first()
    done.wait()
  }

  private func arrive() {
    arrivals.add(1, ordering: .sequentiallyConsistent)
    while arrivals.load(ordering: .sequentiallyConsistent) < 2 { sched_yield() }
  }
}

extension Operation {
  /// Waits for any operation without blocking a thread.
  func finished() async { await onThread { self.waitUntilFinished() } }
}

func isCancellation(_ result: Result<Int, any Error>?) -> Bool {
  if case .failure(let error)? = result { error is CancellationError } else { false }
}
