public import Foundation
public import UV

/// Writes a whole file, or into an open one.
///
/// Cancelling it finishes it at once; some of the bytes may be in the file then.
public final class WriteFileOperation: RequestOperation<Void>, @unchecked Sendable {
  // Unchecked: as RequestOperation.

  /// Makes `bytes` the content of the file. As ``UV/FileSystem/writeFile(_:to:_:permissions:loop:)-([UInt8],_,_,_,_)``, with its errors.
  ///
  /// - Parameters:
  ///   - bytes: An array of bytes, text, which is written in UTF-8, or `Data`. Evaluated when the operation starts.
  ///   - path: A `String`, a ``UV/FilePath`` or a `URL`. Evaluated when the operation starts.
  ///   - isAtomic: Whether the file has the old content or the new one at any time, also after a crash. As
  ///     `FileSystem.replaceFile`.
  public init(
    _ bytes: @autoclosure @escaping @Sendable () throws -> some FileContent,
    to path: @autoclosure @escaping @Sendable () throws -> some FilePathConvertible,
    atomically isAtomic: Bool = false, on loop: EventLoop = .shared
  ) {
    super.init {
      let path = try path().asFilePath()
      let bytes = try bytes().fileBytes
      let request = TaskRequest(on: loop) {
        if isAtomic {
          try await FileSystem.replaceFile(at: path, with: bytes, loop: loop)
        } else {
          try await FileSystem.writeFile(bytes, to: path, loop: loop)
        }
      }
      return (loop, request, nil)
    }
  }

  /// Writes into an open file. As ``UV/File/write(_:at:)-([UInt8],_)``, with its errors.
  ///
  /// - Parameters:
  ///   - bytes: As for ``init(_:to:atomically:on:)``.
  ///   - file: Evaluated when the operation starts.
  ///   - offset: Where to begin; `nil` for the file's cursor.
  public init(
    _ bytes: @autoclosure @escaping @Sendable () throws -> some FileContent,
    into file: @autoclosure @escaping @Sendable () throws -> File, at offset: Int? = nil
  ) {
    super.init {
      let file = try file()
      let request = file.core.write([try bytes().fileBytes], at: offset)
      return (file.loop, request.map { _ in }, file)
    }
  }
}

/// What can be written to a file.
public protocol FileContent: Sendable {
  var fileBytes: [UInt8] { get }
}

extension [UInt8]: FileContent {
  public var fileBytes: [UInt8] { self }
}

extension String: FileContent {
  public var fileBytes: [UInt8] { Array(utf8) }
}

extension Data: FileContent {
  public var fileBytes: [UInt8] { Array(self) }
}
