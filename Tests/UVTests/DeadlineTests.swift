import Testing
import UV

@Suite(.timeLimit(.minutes(1))) struct DeadlineTests {
  private static let clamped: [(Duration, UInt64)] = [
    (.zero, 0),
    (.seconds(-1), 0),
    (.nanoseconds(-1), 0),
    (.seconds(Int64.min), 0),
    (attoseconds(1), 1),
    (.nanoseconds(1), 1),
    (attoseconds(1_000_000_001), 2),
    (.milliseconds(1), 1_000_000),
    (.seconds(2_592_000), 2_592_000_000_000_000),
    (.nanoseconds(Int64.max), farthest),
    (attoseconds(1) + .nanoseconds(Int64.max), farthest),
    (.seconds(9_223_372_037), farthest),
    (.seconds(Int64.max), farthest),
    (.seconds(1e19), farthest),
    (.seconds(-1e19), 0),
  ]

  private static let farthest = UInt64(Int64.max)

  private static func attoseconds(_ count: Int64) -> Duration {
    Duration(secondsComponent: 0, attosecondsComponent: count)
  }

  @Test(arguments: clamped)
  func durationsAreRoundedUpAndClamped(_ duration: Duration, _ nanoseconds: UInt64) {
    #expect(duration.clampedNanoseconds == nanoseconds)
  }

  @Test func advancingStopsAtTheFarthestDeadline() {
    let farthest = Deadline(nanoseconds: Self.farthest)
    #expect(Deadline(nanoseconds: 5).advanced(by: 7) == Deadline(nanoseconds: 12))
    #expect(Deadline(nanoseconds: 5).advanced(by: .max) == farthest)
    #expect(farthest.advanced(by: 1) == farthest)
    #expect(Deadline(after: .seconds(Int64.max)) == farthest)
  }

  @Test func aDeadlineLiesAtLeastItsDurationAhead() {
    for milliseconds in 1...100 {
      let before = Deadline.now
      let deadline = Deadline(after: .milliseconds(milliseconds))
      #expect(deadline >= before.advanced(by: UInt64(milliseconds) * 1_000_000))
    }
  }

  @Test func aDeadlineOfNothingHasPassed() {
    for duration in [Duration.zero, .seconds(-3), .seconds(Int64.min)] {
      let deadline = Deadline(after: duration)
      #expect(deadline <= Deadline.now)
    }
  }
}
