public import UV

/// Opens a file. Its output is the file, which somebody has to close, for instance a ``CloseFileOperation``.
///
/// ```swift
/// let open = OpenFileOperation("in.log")
/// let read = ReadFileOperation(from: try open.output, upTo: 4096)
/// let write = WriteFileOperation(try read.output, to: "head.log")
/// let close = CloseFileOperation(try open.output)
/// ```
///
/// As ``UV/File/open(at:_:permissions:loop:)``, with its errors. Cancelling it finishes it at once; a file that is opened all the same is
/// closed.
public final class OpenFileOperation: RequestOperation<File>, @unchecked Sendable {
  // Unchecked: as RequestOperation.

  /// - Parameters:
  ///   - path: A `String`, a ``UV/FilePath`` or a `URL`. Evaluated when the operation starts.
  ///   - permissions: Those of a file that is made, less the process's `umask`.
  public init(
    _ path: @autoclosure @escaping @Sendable () throws -> some FilePathConvertible,
    _ options: FileOptions = .reading, permissions: FilePermissions = 0o666,
    on loop: EventLoop = .shared
  ) {
    super.init {
      let opening = try loop.core.opening(path().asFilePath(), options, permissions)
      return (loop, opening.map { File($0, on: loop) }, nil)
    }
  }
}
