import UV

/// What the modes have in common.
struct Work: Sendable {
  /// How many timers, jobs, hops or connections.
  let count: Int
  let loop: EventLoop

  init(_ count: Int, _ loop: EventLoop) {
    self.count = count
    self.loop = loop
  }
}

/// Counts what was done.
// Unchecked: used on one thread at a time, the loop's or that of a serial queue.
final class Tally: @unchecked Sendable {
  private(set) var count = 0

  func add() { count += 1 }

  /// Ends the program unless as many were counted as there should be.
  func check(is expected: Int, _ what: String) {
    if count != expected { fail("\(count) \(what) instead of \(expected)") }
  }
}

extension Duration {
  var inSeconds: Double { self / .seconds(1) }
}
