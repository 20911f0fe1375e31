import Foundation

/// What is said about one comparison.
struct Outcome: Encodable {
  let name: String
  let figure: String
  let baseline: String
  let pairs: Int
  /// The baseline's and ours, in the figure's unit.
  let baselineValue: Spread
  let ours: Spread
  let ratio: Spread
  let goal: String?
  let isMet: Bool?
  let explanation: String?

  init(_ comparison: Comparison, _ goal: Goal?) {
    name = comparison.subject.name
    figure = comparison.subject.figure
    baseline = comparison.baseline
    pairs = comparison.pairs.count
    baselineValue = Spread(comparison.pairs.map(\.baseline))
    ours = Spread(comparison.pairs.map(\.ours))
    ratio = comparison.ratio
    self.goal = goal.map { "\($0.relation.rawValue) \($0.bound)" }
    let isMet = goal.map { [ratio] in $0.isMet(by: ratio.median) }
    self.isMet = isMet
    explanation = isMet == false ? goal?.explanation : nil
  }

  /// In a word, beside the ratio.
  var verdict: String {
    let spread = ratio.isWide ? "wide spread" : ""
    switch isMet {
    case true?: return spread.isEmpty ? "met" : "met, \(spread)"
    case false?: return spread.isEmpty ? "MISSED" : "MISSED, \(spread)"
    case nil: return spread
    }
  }
}

/// The whole of one run.
struct Results: Encodable {
  let facts: [String: String]
  let outcomes: [Outcome]

  init(_ record: Record, _ goals: [Goal]) {
    facts = Dictionary(record.facts.map { ($0.name, $0.value) }) { _, last in last }
    outcomes = record.comparisons.map { comparison in
      Outcome(comparison, goals.first { $0.subject == comparison.subject })
    }
  }

  func json() throws -> String {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    return String(decoding: try encoder.encode(self), as: UTF8.self) + "\n"
  }
}
