// A key-value server that speaks the Redis protocol: `swift run kv-server --port 6390`, and then `redis-cli -p 6390`.

import Glibc
import UV

let options: Options
do {
  options = try Options(CommandLine.arguments.dropFirst())
} catch {
  exit("\(error) (--help lists the options)", status: EX_USAGE)
}
if options.showsHelp {
  print(Options.help)
  exit(0)
}
do {
  try await KeyValueServer.run(options)
} catch {
  exit("\(error)", status: EXIT_FAILURE)
}

/// Prints one line on standard error and ends the process.
func exit(_ message: String, status: CInt) -> Never {
  complain(message)
  exit(status)
}

/// Prints one line on standard error.
func complain(_ message: String) {
  let line = Array("kv-server: \(message)\n".utf8)
  // Where standard error is closed there is nobody to tell.
  _ = write(STDERR_FILENO, line, line.count)
}
