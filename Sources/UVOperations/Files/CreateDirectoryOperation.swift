public import UV

/// Makes a directory. As ``UV/FileSystem/createDirectory(at:permissions:withIntermediates:loop:)``, with its errors.
public final class CreateDirectoryOperation: TaskOperation<Void>, @unchecked Sendable {
  // Unchecked: as RequestOperation.

  /// - Parameter path: A `String`, a ``UV/FilePath`` or a `URL`. Evaluated when the operation starts.
  public init(
    _ path: @autoclosure @escaping @Sendable () throws -> some FilePathConvertible,
    permissions: FilePermissions = 0o777, withIntermediates: Bool = false,
    on loop: EventLoop = .shared
  ) {
    super.init(evaluating: {
      let path = try path().asFilePath()
      return (
        loop,
        {
          try await FileSystem.createDirectory(
            at: path, permissions: permissions, withIntermediates: withIntermediates, loop: loop)
        }
      )
    })
  }
}
