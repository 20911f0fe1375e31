internal import CUV
internal import Locking

/// Where the package says what no caller is told by an error: descriptors that ran out, objects that were dropped while open.
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
    let text = Array("swift-uv: \(line)\n".utf8)
    // Standard error may be closed; there is nobody left to tell.
    _ = text.withUnsafeBytes { write(2, $0.baseAddress, $0.count) }
  }
}
