import Foundation

/// Bars of the ratios to C, drawn for light and dark pages.
struct Chart {
  private static let labelWidth = 230.0
  private static let barWidth = 420.0
  private static let rowHeight = 24.0
  /// The ratio at the right end; longer bars are cut.
  private static let farthest = 1.4

  let title: String
  let outcomes: [Outcome]

  var svg: String {
    let height = Double(outcomes.count) * Self.rowHeight + 70
    let width = Self.labelWidth + Self.barWidth + 70
    let one = x(1)
    var lines = [
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 \(Int(width)) \(Int(height))\" role=\"img\" aria-label=\"\(title)\">",
      """
      <style>
        text { font: 13px system-ui, sans-serif; fill: #1f2328 }
        .title { font-weight: 600 }
        .bar { fill: #2f6fd0 }
        .ends { stroke: #1f2328; stroke-width: 1.5 }
        .one { stroke: #8b949e; stroke-dasharray: 4 3 }
        @media (prefers-color-scheme: dark) {
          text { fill: #e6edf3 }
          .bar { fill: #5b9bff }
          .ends { stroke: #e6edf3 }
        }
      </style>
      """,
      "<text class=\"title\" x=\"10\" y=\"20\">\(title)</text>",
      "<line class=\"one\" x1=\"\(one)\" y1=\"34\" x2=\"\(one)\" y2=\"\(height - 26)\"/>",
      "<text x=\"\(one)\" y=\"\(height - 10)\" text-anchor=\"middle\">C = 1</text>",
    ]
    for (index, outcome) in outcomes.enumerated() {
      lines.append(row(outcome, y: 36 + Double(index) * Self.rowHeight))
    }
    return (lines + ["</svg>"]).joined(separator: "\n") + "\n"
  }

  private func row(_ outcome: Outcome, y: Double) -> String {
    let ratio = outcome.ratio
    let middle = y + 9
    let end = max(x(ratio.median), x(ratio.max))
    return """
      <text x="\(Self.labelWidth - 8)" y="\(y + 13)" text-anchor="end">\(outcome.name)</text>
      <rect class="bar" x="\(Self.labelWidth)" y="\(y)" width="\(x(ratio.median) - Self.labelWidth)" height="18" rx="2"/>
      <line class="ends" x1="\(x(ratio.min))" y1="\(middle)" x2="\(x(ratio.max))" y2="\(middle)"/>
      <text x="\(end + 6)" y="\(y + 13)">\(String(format: "%.2f", ratio.median))</text>
      """
  }

  private func x(_ ratio: Double) -> Double {
    let place = Self.labelWidth + min(ratio, Self.farthest) / Self.farthest * Self.barWidth
    return place.rounded()
  }
}
