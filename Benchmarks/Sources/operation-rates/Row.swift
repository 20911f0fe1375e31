import Foundation

/// The middle and the ends of what several runs gave.
struct Spread {
  let median: Double
  let min: Double
  let max: Double

  init(_ values: [Double]) {
    let sorted = values.sorted()
    median = (sorted[(sorted.count - 1) / 2] + sorted[sorted.count / 2]) / 2
    min = sorted[0]
    max = sorted[sorted.count - 1]
  }

  /// In columns, with so many decimals.
  func columns(_ decimals: Int) -> String {
    String(format: "%9.\(decimals)f %9.\(decimals)f %9.\(decimals)f", median, min, max)
  }
}

/// What is printed about one case.
struct Row {
  let title: String
  let operationsPerSecond: Spread
  /// The rate divided by that of the comparison's first case in the same round; not for that case.
  let ratio: Spread?
  let goal: Double?

  static let header =
    String(repeating: " ", count: 50)
    + "operations/s       min       max     ratio       min       max  goal"

  var line: String {
    let start = title.padding(toLength: 53, withPad: " ", startingAt: 0)
    let middle = ratio.map { " " + $0.columns(2) } ?? ""
    let end = goal.map { String(format: " %5.1f", $0) } ?? ""
    return start + operationsPerSecond.columns(0) + middle + end
  }
}
