public import UV

/// Reads a whole file, or from an open one. Its output is the bytes.
///
/// Cancelling it finishes it at once; what a thread of the pool reads meanwhile is dropped.
public final class ReadFileOperation: RequestOperation<[UInt8]>, @unchecked Sendable {
  // Unchecked: as RequestOperation.

  /// Reads the whole file. As ``UV/FileSystem/readFile(at:loop:)``, with its errors.
  ///
  /// - Parameter path: A `String`, a ``UV/FilePath`` or a `URL`. Evaluated when the operation starts.
  public init(
    _ path: @autoclosure @escaping @Sendable () throws -> some FilePathConvertible,
    on loop: EventLoop = .shared
  ) {
    super.init {
      let path = try path().asFilePath()
      let request = TaskRequest(on: loop) { try await FileSystem.readFile(at: path, loop: loop) }
      return (loop, request, nil)
    }
  }

  /// Reads from an open file. As ``UV/File/read(upTo:at:)``, with its errors, but the output is empty at the end.
  ///
  /// - Parameters:
  ///   - file: Evaluated when the operation starts.
  ///   - limit: How many bytes to read; more than there are is no error.
  ///   - offset: Where to begin; `nil` for the file's cursor.
  public init(
    from file: @autoclosure @escaping @Sendable () throws -> File, upTo limit: Int = .max,
    at offset: Int? = nil
  ) {
    super.init {
      let file = try file()
      return (file.loop, file.core.read(upTo: limit, at: offset), file)
    }
  }
}
