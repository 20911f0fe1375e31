public import UV

/// Removes a file, or a directory with all that is in it. As ``UV/FileSystem/removeTree(at:loop:)``, with its errors.
public final class RemoveOperation: TaskOperation<Void>, @unchecked Sendable {
  // Unchecked: as RequestOperation.

  /// - Parameter path: A `String`, a ``UV/FilePath`` or a `URL`. Evaluated when the operation starts.
  public init(
    _ path: @autoclosure @escaping @Sendable () throws -> some FilePathConvertible,
    on loop: EventLoop = .shared
  ) {
    super.init(evaluating: {
      let path = try path().asFilePath()
      return (loop, { try await FileSystem.removeTree(at: path, loop: loop) })
    })
  }
}
