internal import CUV

/// A point on the monotonic clock that libuv uses, in nanoseconds.
///
/// Taken when a call is made and not when the loop gets to it, so waiting in the loop's queue does not add to a delay.
package struct Deadline: Comparable, Sendable {
  package var nanoseconds: UInt64

  /// Whether nothing was to be waited for, so that rounding up would only be late.
  package private(set) var isImmediate = false

  package static var now: Deadline { Deadline(nanoseconds: uv_hrtime()) }

  package init(nanoseconds: UInt64) { self.nanoseconds = nanoseconds }

  /// `duration` from now. Zero and less is now; what does not fit is some 290 years away.
  package init(after duration: Duration) {
    let wait = duration.clampedNanoseconds
    self = Deadline.now.advanced(by: wait)
    isImmediate = wait == 0
  }

  package func advanced(by nanoseconds: UInt64) -> Deadline {
    Deadline(nanoseconds: min(self.nanoseconds.saturatingAdd(nanoseconds), Deadline.farthest))
  }

  /// The first point after now that is a whole number of intervals from here. Points that have passed are left out.
  package func next(every interval: Duration) -> Deadline {
    let step = interval.clampedNanoseconds
    let now = Deadline.now
    let late = now < self ? 0 : now.nanoseconds - nanoseconds
    return advanced(by: step.multipliedReportingOverflow(by: late / step + 1).partialValue)
  }

  package static func < (left: Deadline, right: Deadline) -> Bool {
    left.nanoseconds < right.nanoseconds
  }

  private static let farthest = UInt64(Int64.max)
}

extension Duration {
  /// This duration in nanoseconds, rounded up, between 0 and `Int64.max`.
  package var clampedNanoseconds: UInt64 {
    // `components` has no room for more seconds.
    if self > .seconds(Int64.max) { return UInt64(Int64.max) }
    if self < .zero { return 0 }
    let (seconds, attoseconds) = components
    let (whole, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
    guard !overflow else { return UInt64(Int64.max) }
    let part = (attoseconds + 999_999_999) / 1_000_000_000
    return min(UInt64(whole) + UInt64(part), UInt64(Int64.max))
  }
}

extension UInt64 {
  fileprivate func saturatingAdd(_ other: UInt64) -> UInt64 {
    let (sum, overflow) = addingReportingOverflow(other)
    return overflow ? .max : sum
  }
}
