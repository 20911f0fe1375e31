internal import Foundation

/// How long to wait between attempts: longer each time, up to a limit, and partly at random so that clients which failed together do not
/// come back together.
public struct Backoff: Hashable, Sendable {
  /// The wait after the first attempt.
  public var initialDelay: Duration
  /// What each further wait is multiplied by. 1 keeps it; below 1 counts as 1.
  public var factor: Double
  /// The longest wait.
  public var maximumDelay: Duration
  /// Which part of a wait is random: 0 is none of it, 1 is all, so that the wait is anything between nothing and the full time.
  public var jitter: Double

  /// With the defaults: 50-100 ms, 100-200 ms, 200-400 ms, ..., 15-30 s.
  public init(
    from initialDelay: Duration = .milliseconds(100), by factor: Double = 2,
    upTo maximumDelay: Duration = .seconds(30), jitter: Double = 0.5
  ) {
    self.initialDelay = initialDelay
    self.factor = factor
    self.maximumDelay = maximumDelay
    self.jitter = jitter
  }

  /// The same wait each time, without jitter.
  public static func constant(_ delay: Duration) -> Backoff {
    Backoff(from: delay, by: 1, upTo: delay, jitter: 0)
  }

  /// The wait after the attempt of that number, counted from 1.
  public func delay(afterAttempt attempt: Int) -> Duration {
    // A factor or jitter that is no number counts as 1 and 0.
    let random = (jitter > 0 ? min(jitter, 1) : 0) * Double.random(in: 0...1)
    return .seconds(fullDelay(afterAttempt: attempt) * (1 - random))
  }

  /// In seconds. What overflows becomes infinite, and is cut by the maximum like everything else.
  private func fullDelay(afterAttempt attempt: Int) -> Double {
    let first = initialDelay / .seconds(1)
    guard first > 0 else { return 0 }
    let growth = pow(factor > 1 ? factor : 1, Double(max(attempt, 1) - 1))
    // The last is for what a Duration can no longer be made of.
    return min(first * growth, max(maximumDelay / .seconds(1), 0), 1e15)
  }
}
