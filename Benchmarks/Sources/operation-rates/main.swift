// How many operations a second, ours beside Foundation's own. Benchmarks/README.md says what the cases mean.

import Foundation

/// Ends the program with a line on standard error.
func fail(_ message: String, status: Int32 = EXIT_FAILURE) -> Never {
  FileHandle.standardError.write(Data("operation-rates: \(message)\n".utf8))
  exit(status)
}

func check(_ isRight: Bool, _ message: @autoclosure () -> String) {
  if !isRight { fail(message()) }
}

/// Runs the cases in turn, and returns the rates of each.
func measure(_ comparison: Comparison, rounds: Int, operations: Int) -> [[Double]] {
  let total = max(1, Int(Double(operations) * comparison.share))
  var rates = comparison.cases.map { _ in [Double]() }
  // The first round warms up, and counts for nothing. Each round has the order of the one before turned round, so that no
  // case always comes after the same other.
  for round in 0...rounds {
    let order = Array(comparison.cases.indices)
    for index in round.isMultiple(of: 2) ? order : order.reversed() {
      let time = comparison.cases[index].run(total)
      if round > 0 { rates[index].append(Double(total) / (time / .seconds(1))) }
    }
  }
  return rates
}

func rows(of comparison: Comparison, rates: [[Double]]) -> [Row] {
  comparison.cases.indices.map { index in
    Row(
      title: comparison.title(of: comparison.cases[index]),
      operationsPerSecond: Spread(rates[index]),
      ratio: index == 0 ? nil : Spread(zip(rates[index], rates[0]).map { $0 / $1 }),
      goal: comparison.cases[index].goal)
  }
}

/// Each round of each case beside the same round of the first case.
func recordLines(of comparison: Comparison, rates: [[Double]]) -> String {
  var lines = ""
  for (test, own) in zip(comparison.cases, rates).dropFirst() {
    let title = "operations: \(comparison.title(of: test))"
    for (rate, first) in zip(own, rates[0]) {
      lines += "pair\t\(title)\toperations/s\t\(comparison.cases[0].name)\t\(first)\t\(rate)\n"
    }
  }
  return lines
}

let options: Options
do {
  options = try Options(CommandLine.arguments.dropFirst())
} catch {
  fail("\(error) (--help lists the options)", status: EX_USAGE)
}
if options.showsHelp {
  print(Options.help)
  exit(EXIT_SUCCESS)
}

let chosen = comparisons.map { $0.only(options.only) }
if chosen.allSatisfy({ $0.cases.isEmpty }) { fail("--only leaves no case", status: EX_USAGE) }
print(Row.header)
var record = ""
for comparison in chosen where !comparison.cases.isEmpty {
  let rates = measure(comparison, rounds: options.rounds, operations: options.operations)
  for row in rows(of: comparison, rates: rates) { print(row.line) }
  record += recordLines(of: comparison, rates: rates)
}
if let path = options.record {
  guard let file = FileHandle(forWritingAtPath: path) else { fail("cannot write to \(path)") }
  file.seekToEndOfFile()
  file.write(Data(record.utf8))
}
