internal import CUV
internal import Glibc
internal import Locking

/// Where the package says what no caller is told by an error: descriptors that ran out, objects that were dropped while open.
///
/// One line each, on standard error. A line that would have to wait for whoever reads that is left out, and the next one says so.
public enum Report {
  private static let handler = Lock<(@Sendable (String) -> Void)?>(nil)

  /// Makes `handler` get every report, one line of text each, instead of standard error.
  ///
  /// Any thread. It is called on loop threads and must not block; `nil` brings standard error back.
  public static func setHandler(_ handler: (@Sendable (String) -> Void)?) {
    self.handler.withLock { $0 = handler }
  }

  package static func send(_ line: String) {
    if let handler = handler.withLock({ $0 }) { return handler(line) }
    standardError.withLock { $0.print(line) }
  }

  private static let standardError = Lock(StandardError())
}

/// Standard error, for threads that must not wait for whoever reads it.
private struct StandardError: ~Copyable {
  /// How many lines there was no room for.
  private var lost = 0

  mutating func print(_ line: String) {
    // A pipe that is ready takes as much as it can take at once, `PIPE_BUF`, without blocking.
    var ready = pollfd(fd: STDERR_FILENO, events: Int16(POLLOUT), revents: 0)
    guard poll(&ready, 1, 0) == 1 else {
      lost += 1
      return
    }
    let note = lost > 0 ? "swift-uv: \(lost) lines before this one are lost\n" : ""
    lost = 0
    let text = Array("\(note)swift-uv: \(line)".utf8.prefix(4_095)) + [UInt8(ascii: "\n")]
    // Nobody may be left to read it, which is no reason to end the program.
    let mask = BlockedBrokenPipe()
    defer { mask.restore() }
    _ = text.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
  }
}
