public import UV

/// Gives a file another name. As ``UV/FileSystem/rename(_:to:loop:)``, with its errors.
public final class RenameFileOperation: TaskOperation<Void>, @unchecked Sendable {
  // Unchecked: as RequestOperation.

  /// - Parameters:
  ///   - path: A `String`, a ``UV/FilePath`` or a `URL`. Evaluated when the operation starts, like `newPath`.
  public init(
    _ path: @autoclosure @escaping @Sendable () throws -> some FilePathConvertible,
    to newPath: @autoclosure @escaping @Sendable () throws -> some FilePathConvertible,
    on loop: EventLoop = .shared
  ) {
    super.init(evaluating: {
      let (path, newPath) = (try path().asFilePath(), try newPath().asFilePath())
      return (loop, { try await FileSystem.rename(path, to: newPath, loop: loop) })
    })
  }
}
