public import UV

/// Reads what is in a directory. Its output is the entries, in the order of their names.
///
/// As ``UV/FileSystem/entries(of:loop:)``, with its errors; that one need not have all of them in memory.
public final class ListDirectoryOperation: TaskOperation<[DirectoryEntry]>, @unchecked Sendable {
  // Unchecked: as RequestOperation.

  /// - Parameter path: A `String`, a ``UV/FilePath`` or a `URL`. Evaluated when the operation starts.
  public init(
    _ path: @autoclosure @escaping @Sendable () throws -> some FilePathConvertible,
    on loop: EventLoop = .shared
  ) {
    super.init(evaluating: {
      let path = try path().asFilePath()
      return (
        loop,
        {
          var entries: [DirectoryEntry] = []
          for try await entry in FileSystem.entries(of: path, loop: loop) { entries.append(entry) }
          return entries.sorted { $0.path < $1.path }
        }
      )
    })
  }
}
