public import Foundation
public import UV

/// A `URL` stands for the path of a file, with all bytes that its percent signs spell out.
extension URL: FilePathConvertible {
  /// - Throws: ``NotAFileURL`` for any other scheme.
  public func asFilePath() throws -> FilePath {
    guard isFileURL else { throw NotAFileURL(url: self) }
    return FilePath(bytes: Self.bytes(of: absoluteURL.path(percentEncoded: true)))
  }

  /// What percent signs spell out need not be UTF-8, which Foundation's own conversions insist on.
  private static func bytes(of text: String) -> [UInt8] {
    var bytes: [UInt8] = []
    var rest = Array(text.utf8)[...]
    while let byte = rest.popFirst() {
      let digits = String(decoding: rest.prefix(2), as: UTF8.self)
      if byte == UInt8(ascii: "%"), digits.utf8.count == 2, let value = UInt8(digits, radix: 16) {
        bytes.append(value)
        rest = rest.dropFirst(2)
      } else {
        bytes.append(byte)
      }
    }
    return bytes
  }
}

/// A `URL` that names no file was given as a path.
public struct NotAFileURL: Error, Hashable, Sendable, CustomStringConvertible {
  public let url: URL

  public init(url: URL) { self.url = url }

  public var description: String { "\(url) is not the URL of a file" }
}

extension FileTime {
  public init(_ date: Date) {
    let seconds = date.timeIntervalSince1970.rounded(.down)
    let rest = date.timeIntervalSince1970 - seconds
    self.init(seconds: Int(seconds), nanoseconds: Int(rest * 1e9))
  }

  /// The same point in time, to about a microsecond.
  public var date: Date {
    Date(timeIntervalSince1970: Double(seconds) + Double(nanoseconds) / 1e9)
  }
}
