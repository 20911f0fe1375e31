public import UV

/// Asks what the system knows of a file. As ``UV/FileSystem/info(at:followingLinks:loop:)``, with its errors.
public final class FileInfoOperation: RequestOperation<FileInfo>, @unchecked Sendable {
  // Unchecked: as RequestOperation.

  /// - Parameter path: A `String`, a ``UV/FilePath`` or a `URL`. Evaluated when the operation starts.
  public init(
    _ path: @autoclosure @escaping @Sendable () throws -> some FilePathConvertible,
    followingLinks: Bool = true, on loop: EventLoop = .shared
  ) {
    super.init { (loop, try loop.core.info(path().asFilePath(), followingLinks), nil) }
  }
}
