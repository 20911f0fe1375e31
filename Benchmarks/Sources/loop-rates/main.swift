// What loops do on ours, in the same work as that of loop-rates-c. Benchmarks/README.md says what the modes are.

import Glibc
import UV

/// Ends the program with a line on standard error.
func fail(_ message: String, status: Int32 = EXIT_FAILURE) -> Never {
  let line = Array("loop-rates: \(message)\n".utf8)
  _ = Glibc.write(STDERR_FILENO, line, line.count)
  exit(status)
}

func check(_ isRight: Bool, _ message: @autoclosure () -> String) {
  if !isRight { fail(message()) }
}

/// Runs `mode` on the thread of a loop of its own, and returns how often its work was done in a second.
nonisolated func run(_ mode: Mode, _ count: Int) async throws -> Double {
  let loop = try EventLoop()
  let work = Work(count, loop)
  let time = try await Task(executorPreference: loop) { try await mode.measure(work) }.value
  await loop.shutdown()
  return Double(count) / time.inSeconds
}

do {
  let options = try Options(CommandLine.arguments.dropFirst())
  if options.showsHelp {
    print(Options.help)
    exit(EXIT_SUCCESS)
  }
  guard let mode = modes.first(where: { $0.name == options.mode }) else {
    throw UsageError(description: "unknown mode '\(options.mode)'")
  }
  let value = try await run(mode, options.count ?? mode.count)
  let thousandths = Int(value * 1_000)
  let rest = String(thousandths % 1_000 + 1_000).dropFirst()
  print("\(mode.name) \(thousandths / 1_000).\(rest) \(mode.unit)")
} catch let error as UsageError {
  fail("\(error) (--help lists the options)", status: EX_USAGE)
} catch {
  fail("\(error)")
}
