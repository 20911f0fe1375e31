import Foundation

/// What `scripts/benchmark` noted while it ran: lines of fields that are separated by tabs.
///
/// ```
/// fact   NAME  VALUE
/// pair   CASE  FIGURE  BASELINE  VALUE  OURS
/// ```
///
/// A pair is what the baseline and ours reached one right after the other.
struct Record {
  private(set) var facts: [(name: String, value: String)] = []
  private(set) var comparisons: [Comparison] = []

  init(_ text: String) throws(Malformed) {
    for line in text.split(separator: "\n") {
      let fields = line.split(separator: "\t", omittingEmptySubsequences: false).map(String.init)
      switch (fields.first, fields.count) {
      case ("fact", 3): facts.append((fields[1], fields[2]))
      case ("pair", 6): try add(fields, line)
      default: throw Malformed(line: String(line))
      }
    }
  }

  private mutating func add(_ fields: [String], _ line: Substring) throws(Malformed) {
    guard let baseline = Double(fields[4]), let ours = Double(fields[5]), baseline > 0 else {
      throw Malformed(line: String(line))
    }
    let subject = Subject(name: fields[1], figure: fields[2])
    if !comparisons.contains(where: { $0.subject == subject }) {
      comparisons.append(Comparison(subject: subject, baseline: fields[3]))
    }
    let index = comparisons.firstIndex { $0.subject == subject }!  // Added above if it was missing.
    comparisons[index].pairs.append((baseline, ours))
  }
}

/// What is compared, and by which figure.
struct Subject: Hashable {
  let name: String
  let figure: String
}

struct Comparison {
  let subject: Subject
  /// What ours are compared with.
  let baseline: String
  var pairs: [(baseline: Double, ours: Double)] = []

  var ratio: Spread { Spread(pairs.map { $0.ours / $0.baseline }) }
}

/// The middle and the ends of what several runs gave.
struct Spread: Encodable {
  let median: Double
  let min: Double
  let max: Double

  init(_ values: [Double]) {
    let sorted = values.sorted()
    median = (sorted[(sorted.count - 1) / 2] + sorted[sorted.count / 2]) / 2
    min = sorted[0]
    max = sorted[sorted.count - 1]
  }

  /// Whether the ends are so far apart that the middle says little.
  var isWide: Bool { max - min > 0.2 * median }
}

struct Malformed: Error, CustomStringConvertible {
  let line: String

  var description: String { "this line makes no sense: \(line)" }
}
