internal import CUV
internal import Glibc

/// A path as the system has it: bytes, which need not be UTF-8.
///
/// A name that a directory listing returned can be opened and removed, whatever its bytes are. Everywhere a path is expected a `String`
/// will do.
public struct FilePath: Hashable, Sendable {
  // Ends with a NUL, so that it can be handed to C as it is.
  private var terminated: [UInt8]

  public init(_ path: some StringProtocol) { self.init(bytes: path.utf8) }

  /// - Parameter bytes: Without the NUL that ends a path in C.
  public init(bytes: some Sequence<UInt8>) {
    terminated = Array(bytes)
    terminated.append(0)
  }

  /// The bytes of the path, without an end mark.
  public var bytes: ArraySlice<UInt8> { terminated.dropLast() }

  /// The path as text, `nil` if it is not valid UTF-8.
  public var string: String? { String(validating: bytes, as: UTF8.self) }

  public var isEmpty: Bool { terminated.count == 1 }

  public var isAbsolute: Bool { terminated[0] == slash }

  /// The last component, such as `b` of `/a/b` and of `/a/b/`; empty for `/` and for nothing.
  public var name: FilePath {
    let path = withoutTrailingSlashes
    guard path != [slash] else { return "" }
    return FilePath(bytes: path[(path.lastIndex(of: slash).map { $0 + 1 } ?? path.startIndex)...])
  }

  /// The path without its last component: `/a` of `/a/b`, `/` of `/a`, `.` of `a`.
  public var parent: FilePath {
    let path = withoutTrailingSlashes
    guard let end = path.lastIndex(of: slash) else { return "." }
    let parent = FilePath(bytes: path[..<end]).withoutTrailingSlashes
    return parent.isEmpty ? "/" : FilePath(bytes: parent)
  }

  /// The path of `name` in the directory that this is.
  public func appending(_ name: FilePath) -> FilePath {
    guard !isEmpty else { return name }
    return FilePath(bytes: bytes.last == slash ? bytes + name.bytes : bytes + [slash] + name.bytes)
  }

  /// The path of `name` in the directory that this is.
  public func appending(_ name: String) -> FilePath { appending(FilePath(name)) }

  /// The path of the file itself, also if that is a symbolic link.
  func removingTrailingSlashes() -> FilePath { FilePath(bytes: withoutTrailingSlashes) }

  private var withoutTrailingSlashes: ArraySlice<UInt8> {
    var path = bytes
    while path.count > 1, path.last == slash { path.removeLast() }
    return path
  }

  // MARK: C

  init(cString: UnsafePointer<CChar>) {
    self.init(bytes: UnsafeRawBufferPointer(start: cString, count: strlen(cString)))
  }

  /// Calls `body` with the path as C wants it.
  func withCString<Result>(_ body: (UnsafePointer<CChar>) -> Result) -> Result {
    terminated.withUnsafeBytes { body($0.baseAddress!.assumingMemoryBound(to: CChar.self)) }
  }

  /// This path, if C would not take it for a shorter one.
  ///
  /// - Throws: ``IOError`` with `invalidArgument` if there is a NUL in it.
  func checked(_ operation: String) throws -> FilePath {
    guard withCString({ strlen($0) }) == terminated.count - 1 else {
      throw IOError(.invalidArgument, operation, "\(self), a path with a NUL")
    }
    return self
  }
}

private let slash = UInt8(ascii: "/")

extension FilePath: ExpressibleByStringLiteral {
  public init(stringLiteral path: String) { self.init(path) }
}

extension FilePath: CustomStringConvertible {
  /// The path as text; what is not UTF-8 in it is replaced.
  public var description: String { String(decoding: bytes, as: UTF8.self) }
}

extension FilePath: Comparable {
  public static func < (left: FilePath, right: FilePath) -> Bool {
    left.terminated.lexicographicallyPrecedes(right.terminated)
  }
}

/// What can stand where a path is expected.
public protocol FilePathConvertible: Sendable {
  /// The path.
  ///
  /// - Throws: An error that says why this is the path of no file.
  func asFilePath() throws -> FilePath
}

extension FilePath: FilePathConvertible {
  public func asFilePath() -> FilePath { self }
}

extension String: FilePathConvertible {
  public func asFilePath() -> FilePath { FilePath(self) }
}

extension Substring: FilePathConvertible {
  public func asFilePath() -> FilePath { FilePath(self) }
}
