/// What a ratio has to be, from `goals.tsv`: lines of `CASE FIGURE RELATION BOUND EXPLANATION`, separated by tabs.
struct Goal {
  enum Relation: String {
    case atLeast = ">="
    case atMost = "<="
  }

  let subject: Subject
  let relation: Relation
  let bound: Double
  /// Why it is missed, where it is.
  let explanation: String

  static func parse(_ text: String) throws(Malformed) -> [Goal] {
    var goals: [Goal] = []
    for line in text.split(separator: "\n") where !line.hasPrefix("#") {
      let fields = line.split(separator: "\t", omittingEmptySubsequences: false).map(String.init)
      guard fields.count == 5, let relation = Relation(rawValue: fields[2]),
        let bound = Double(fields[3])
      else { throw Malformed(line: String(line)) }
      let subject = Subject(name: fields[0], figure: fields[1])
      goals.append(
        Goal(subject: subject, relation: relation, bound: bound, explanation: fields[4]))
    }
    return goals
  }

  func isMet(by ratio: Double) -> Bool {
    switch relation {
    case .atLeast: ratio >= bound
    case .atMost: ratio <= bound
    }
  }
}
