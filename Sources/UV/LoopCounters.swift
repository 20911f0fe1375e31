internal import Synchronization

/// Counts that the loop thread writes and any thread may read.
final class LoopCounters: Sendable {
  /// Written by one thread, so load and store are enough.
  struct Count: ~Copyable, Sendable {
    private let value = Atomic<Int>(0)

    var current: Int { value.load(ordering: .relaxed) }

    func add(_ amount: Int) { value.store(current + amount, ordering: .relaxed) }

    func raise(to amount: Int) {
      if amount > current { value.store(amount, ordering: .relaxed) }
    }
  }

  let handles = Count()
  let requests = Count()
  let jobs = Count()
  let iterations = Count()
  let longestTurn = Count()

  var live: Int { handles.current + requests.current }

  /// How long a turn may take before it is reported, in nanoseconds. Any thread may change it.
  let turnLimit = Atomic<Int>(LoopCounters.defaultTurnLimit)

  private static var defaultTurnLimit: Int {
    #if DEBUG
      250_000_000
    #else
      .max
    #endif
  }

  func noteTurn(nanoseconds: UInt64) {
    let time = Int(clamping: Int64(bitPattern: nanoseconds))
    longestTurn.raise(to: time)
    if time > turnLimit.load(ordering: .relaxed) { reportTurn(time) }
  }

  private func reportTurn(_ nanoseconds: Int) {
    Report.send(
      "an event loop was held for \(nanoseconds / 1_000_000) ms: what blocks or computes on its thread keeps all others waiting"
    )
  }
}
