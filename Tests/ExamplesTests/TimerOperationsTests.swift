import Foundation
import TestSupport
import Testing

/// The example `timer-operations`, run as its reader runs it.
@Suite(.timeLimit(.minutes(1)))
struct TimerOperationsTests {
  @Test func itSaysWhatItDoesInOrderAndNeverEarly() async throws {
    let result = try await runProbe("timer-operations")
    #expect(result.passed)
    let lines = result.output.split(separator: "\n").map(Line.init)
    #expect(lines.map(\.text) == expected.map(\.text))
    // Times count from the line at which the part begins.
    for (line, expected) in zip(lines, expected) {
      let origin = expected.since.map { lines[$0].seconds } ?? 0
      #expect(line.seconds >= origin + expected.after - 0.011, "too early: \(line)")
    }
  }

  private struct Line {
    let seconds: Double
    let text: String

    init(_ line: Substring) {
      let parts = line.drop { $0 == " " }.split(separator: " ", maxSplits: 2)
      seconds = Double(parts[0]) ?? -1
      text = parts.last.map { String($0.drop { $0 == " " }) } ?? ""
    }
  }

  /// What is said, and how many seconds after which line at the earliest.
  private let expected: [(text: String, after: Double, since: Int?)] = [
    ("block: returned, executing: true", 0, nil),
    ("block: two seconds have passed, cancelled: false", 2, 0),
    ("block: its completion block runs", 0, 1),
    ("chain: 0.3 s later", 0.3, 2),
    ("chain: another 0.2 s later", 0.2, 3),
    ("tick 1 of 4", 0.25, 4),
    ("tick 2 of 4", 0.5, 4),
    ("tick 3 of 4", 0.75, 4),
    ("tick 4 of 4", 1, 4),
    ("ticks: finished", 0, 8),
    ("timeout: TimerOperation: timed out after 0.5 seconds", 0.5, 9),
    ("retry: attempt 1", 0, 10),
    ("retry: attempt 2", 0.2, 11),
    ("retry: attempt 3", 0.4, 12),
    ("retry: it works", 0, 13),
    ("cancellation: second 1", 1, 14),
    ("cancellation: second 2", 2, 14),
    ("cancellation: left in the queue: 0", 2.5, 14),
    ("cancellation: both finished: true", 0, 17),
  ]
}
