import Foundation

extension Results {
  /// For a terminal.
  var table: String {
    var lines = [
      "case                             figure        baseline       theirs         ours   ratio     min     max  goal"
    ]
    for outcome in outcomes {
      let columns = [
        outcome.name.padded(to: 32), outcome.figure.padded(to: 13), outcome.baseline.padded(to: 10),
        outcome.baselineValue.median.text.aligned(to: 12), outcome.ours.median.text.aligned(to: 12),
        outcome.ratio.median.ratioText.aligned(to: 7), outcome.ratio.min.ratioText.aligned(to: 7),
        outcome.ratio.max.ratioText.aligned(to: 7), " \(outcome.goal ?? "")".padded(to: 8),
        outcome.verdict,
      ]
      lines.append(columns.joined(separator: " "))
    }
    return lines.joined(separator: "\n")
  }

  /// For people who were not there.
  var markdown: String {
    var lines = [
      "# What the benchmarks measured", "",
      "Written by `scripts/benchmark`. A ratio is ours divided by the baseline's in the same pair of runs: the median of the pairs, and the ends.",
      "",
    ]
    lines += facts.sorted { $0.key < $1.key }.map { "- \($0.key): \($0.value)" }
    lines += [
      "", "| case | figure | baseline | theirs | ours | ratio | ends | goal | |",
      "| --- | --- | --- | ---: | ---: | ---: | --- | --- | --- |",
    ]
    for outcome in outcomes {
      let ends = "\(outcome.ratio.min.ratioText) to \(outcome.ratio.max.ratioText)"
      let cells = [
        outcome.name, outcome.figure, outcome.baseline, outcome.baselineValue.median.text,
        outcome.ours.median.text, outcome.ratio.median.ratioText, ends, outcome.goal ?? "",
        outcome.verdict,
      ]
      lines.append("| \(cells.joined(separator: " | ")) |")
    }
    let missed = outcomes.filter { $0.isMet == false }
    if !missed.isEmpty {
      lines += ["", "## Missed", ""]
      lines += missed.map { "- **\($0.name), \($0.figure)**: \($0.explanation ?? "")" }
    }
    return lines.joined(separator: "\n") + "\n"
  }
}

extension Double {
  fileprivate var text: String { String(format: self < 1_000 ? "%.2f" : "%.0f", self) }
  var ratioText: String { String(format: "%.3f", self) }
}

extension String {
  fileprivate func padded(to width: Int) -> String {
    padding(toLength: max(width, count), withPad: " ", startingAt: 0)
  }

  fileprivate func aligned(to width: Int) -> String {
    String(repeating: " ", count: max(0, width - count)) + self
  }
}
