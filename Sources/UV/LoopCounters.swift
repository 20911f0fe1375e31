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

  func noteTurn(nanoseconds: UInt64) {
    longestTurn.raise(to: Int(clamping: Int64(bitPattern: nanoseconds)))
  }
}
