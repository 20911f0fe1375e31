// Copies files, with a progress bar on a terminal: `swift run copy-file SOURCE... DESTINATION`.

import Glibc
import UV

let help = """
  usage: copy-file SOURCE DESTINATION
         copy-file SOURCE... DIRECTORY

  Copies files with their permissions and times. A copy gets its name when it is complete.
  """

// Their bytes, which `CommandLine.arguments` would change if they are not UTF-8.
let paths = CommandLine.unsafeArgv.paths.dropFirst()
if paths == ["--help"] {
  print(help)
  exit(0)
}
guard let destination = paths.last, paths.count >= 2 else {
  complain("there must be a source and a destination (--help says more)")
  exit(EX_USAGE)
}

// Watched before there is anything that a signal would leave behind.
let signals = try EventLoop.shared.signals(.interrupt, .terminate)
let copying = Task { try await copy(paths.dropLast(), to: destination) }
var received: Signal?
Task {
  for await signal in signals {
    // As a shell reports a program that the signal ended. The second one is not made to wait.
    if received != nil { _exit(128 + signal.rawValue) }
    received = signal
    copying.cancel()
  }
}
do {
  exit(try await copying.value ? EXIT_SUCCESS : EXIT_FAILURE)
} catch let error as CancellationError {
  guard let received else { throw error }
  // Not `exit`, which would wait for a thread that still opens a FIFO nobody writes to.
  _exit(128 + received.rawValue)
}

/// Prints one line on standard error.
func complain(_ message: String) {
  let line = Array("copy-file: \(printable(message))\n".utf8)
  // Where standard error is closed there is nobody to tell.
  _ = write(STDERR_FILENO, line, line.count)
}

extension UnsafeMutablePointer<UnsafeMutablePointer<CChar>?> {
  /// The C strings up to the `nil` at the end.
  fileprivate var paths: [FilePath] {
    sequence(first: self) { $0 + 1 }.lazy.map(\.pointee).prefix { $0 != nil }.map {
      FilePath(bytes: UnsafeRawBufferPointer(start: $0, count: strlen($0!)))
    }
  }
}
