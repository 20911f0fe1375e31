import UV

/// Timers, made on the loop's thread.
extension Work {
  /// Timers that fire after 1 to 10 ms.
  func timers() async throws -> Duration {
    let fired = Tally()
    var delays = RandomDelays()
    let start = ContinuousClock.now
    try await inBatches {
      try loop.schedule(after: .milliseconds(delays.next())) { fired.add() }
    }
    // Due after all others, so the time includes the wait for the last.
    try await loop.sleep(for: .milliseconds(longestDelay))
    let time = start.duration(to: .now)
    fired.check(is: count, "timers have fired")
    return time
  }

  /// Timers that are cancelled long before they would fire.
  func cancelledTimers() async throws -> Duration {
    let fired = Tally()
    let start = ContinuousClock.now
    try await inBatches {
      try loop.schedule(after: .seconds(3_600)) { fired.add() }.cancel()
    }
    let time = start.duration(to: .now)
    fired.check(is: 0, "timers have fired")
    // The one that ended the last batch is just being closed.
    check(loop.statistics.handles <= 1, "timers are left")
    return time
  }

  /// A batch in each turn of the loop, as the other program does it: what has fired or was cancelled makes room for what comes.
  private func inBatches(_ beginOne: () throws -> Void) async throws {
    for first in stride(from: 0, to: count, by: batchSize) {
      for _ in first..<min(first + batchSize, count) { try beginOne() }
      try await loop.sleep(for: .zero)
    }
  }
}

private let batchSize = 1_000
private let longestDelay = 10

/// SplitMix64, as the other program has it.
private struct RandomDelays {
  private var state: UInt64 = 0

  /// In milliseconds.
  mutating func next() -> Int {
    state &+= 0x9E37_79B9_7F4A_7C15
    var word = state
    word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
    word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
    return 1 + Int((word ^ (word >> 31)) % UInt64(longestDelay))
  }
}
