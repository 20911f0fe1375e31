public import UV

/// Closes a file when what was asked of it before has ended.
///
/// As ``UV/File/close()``, with its errors. Cancelling it finishes it early; the file is closed all the same.
public final class CloseFileOperation: RequestOperation<Void>, @unchecked Sendable {
  // Unchecked: as RequestOperation.

  /// - Parameter file: Evaluated when the operation starts.
  public init(_ file: @autoclosure @escaping @Sendable () throws -> File) {
    super.init {
      let file = try file()
      return (file.loop, file.core.closing(), file)
    }
  }
}
