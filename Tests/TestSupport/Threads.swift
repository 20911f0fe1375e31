import Dispatch
import Foundation
import Glibc

/// Runs `body` on `count` threads at once and returns when all have ended. `body` gets the number of its thread.
public func onThreads(_ count: Int, _ body: @escaping @Sendable (Int) -> Void) async {
  let group = DispatchGroup()
  for number in 0..<count {
    group.enter()
    Thread.detachNewThread {
      body(number)
      group.leave()
    }
  }
  await withCheckedContinuation { continuation in
    group.notify(queue: .global()) { continuation.resume() }
  }
}

/// Runs `body` on a thread of its own and blocks this one until it has ended. On a loop's thread, what `body` gives to the loop has to
/// wait, and what follows comes first.
public func waitForAnotherThread(to body: @escaping @Sendable () -> Void) {
  let ended = DispatchSemaphore(value: 0)
  Thread.detachNewThread {
    body()
    ended.signal()
  }
  ended.wait()
}

/// The monotonic clock, asked of the system and not of the package under test.
public func monotonicNanoseconds() -> UInt64 {
  var time = timespec()
  clock_gettime(CLOCK_MONOTONIC, &time)
  return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}

extension Duration {
  /// For durations of tests, which fit.
  public var wholeNanoseconds: UInt64 {
    UInt64(components.seconds) * 1_000_000_000 + UInt64(components.attoseconds / 1_000_000_000)
  }
}

/// Keeps the calling thread busy, as a callback that takes too long does.
public func keepBusy(for duration: Duration) {
  let end = monotonicNanoseconds() + duration.wholeNanoseconds
  while monotonicNanoseconds() < end {}
}
