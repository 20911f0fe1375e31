// Makes a table, `results.json`, `results.md` and `results.svg` of what `scripts/benchmark` has noted.

import Foundation

let arguments = CommandLine.arguments.dropFirst()
guard arguments.count == 3 else {
  FileHandle.standardError.write(
    Data("usage: benchmark-report RECORD GOALS DIRECTORY\n".utf8))
  exit(64)
}

do {
  let paths = Array(arguments)
  let record = try Record(String(contentsOfFile: paths[0], encoding: .utf8))
  let goals = try Goal.parse(String(contentsOfFile: paths[1], encoding: .utf8))
  let results = Results(record, goals)
  print(results.table)

  let rates = results.outcomes.filter { $0.baseline == "C" && $0.figure.hasSuffix("/s") }
  let chart = Chart(title: "Rates, as a part of C's on raw libuv", outcomes: rates)
  let directory = URL(filePath: paths[2])
  for (name, text) in [
    ("results.json", try results.json()), ("results.md", results.markdown),
    ("results.svg", chart.svg),
  ] {
    try Data(text.utf8).write(to: directory.appending(path: name), options: .atomic)
  }
} catch {
  FileHandle.standardError.write(Data("benchmark-report: \(error)\n".utf8))
  exit(EXIT_FAILURE)
}
