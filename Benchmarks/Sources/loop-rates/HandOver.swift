import Foundation
import UV

/// Work that goes from one thread to another.
extension Work {
  // MARK: Closures

  func execute(threads: Int = 1) async -> Duration {
    // The loop is open as long as the run goes on.
    await handOver(threads: threads) { try! loop.execute($0) }
  }

  func dispatch(threads: Int = 1) async -> Duration {
    let queue = DispatchQueue(label: "loop-rates")
    return await handOver(threads: threads) { queue.async(execute: $0) }
  }

  /// - Parameter give: Has a closure run by the thread that runs all of them, those of one thread in order.
  private func handOver(
    threads: Int, _ give: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void
  ) async -> Duration {
    let ended = Tally()
    let start = ContinuousClock.now
    await withUnsafeContinuation { continuation in
      for thread in 0..<threads {
        let share = (count + thread) / threads  // Together they are the count.
        Thread.detachNewThread {
          for _ in 0..<share { give { jobsRun += 1 } }
          give {
            ended.add()
            if ended.count == threads { continuation.resume() }
          }
        }
      }
    }
    let time = start.duration(to: .now)
    check(jobsRun == count, "\(jobsRun) jobs have run instead of \(count)")
    return time
  }

  // MARK: Visits

  /// A task that is not on the loop goes there and back.
  func hops() async throws -> Duration {
    try await Task.detached {
      check(!loop.isCurrent, "the task is on the loop")
      let visits = Tally()
      let start = ContinuousClock.now
      for number in 1...count {
        let answer = try await loop.run {
          visits.add()
          return visits.count
        }
        check(answer == number, "hop \(number) has the answer \(answer)")
      }
      return start.duration(to: .now)
    }.value
  }
}

/// Not an object that the closures capture: threads that count its references would hold each other up, whoever runs the closures.
// Unsafe: used by the thread that runs all closures, and by the one that has waited for the last.
nonisolated(unsafe) private var jobsRun = 0
