public import Foundation
public import UV

/// Copies a file.
///
/// As ``UV/FileSystem/copyFile(from:to:overwriting:keepingTimes:loop:progress:)``, with its errors. Cancelling it stops the copy and removes
/// what there was of it; the operation finishes then.
public final class CopyFileOperation: TaskOperation<Void>, ProgressReporting, @unchecked Sendable {
  // Unchecked: as RequestOperation; `progress` may be used on any thread.

  /// Counts bytes. Cancelling it cancels the operation.
  public let progress: Progress

  /// - Parameters:
  ///   - source: A `String`, a ``UV/FilePath`` or a `URL`. Evaluated when the operation starts, like `destination`.
  public init(
    from source: @autoclosure @escaping @Sendable () throws -> some FilePathConvertible,
    to destination: @autoclosure @escaping @Sendable () throws -> some FilePathConvertible,
    overwriting: Bool = true, keepingTimes: Bool = false, on loop: EventLoop = .shared
  ) {
    let progress = Progress(totalUnitCount: -1)  // Nobody knows before the start.
    progress.kind = .file
    self.progress = progress
    super.init(evaluating: {
      let source = try source().asFilePath()
      let destination = try destination().asFilePath()
      return (
        loop,
        {
          try await FileSystem.copyFile(
            from: source, to: destination, overwriting: overwriting, keepingTimes: keepingTimes,
            loop: loop
          ) {
            progress.totalUnitCount = Int64($0.total)
            progress.completedUnitCount = Int64($0.copied)
          }
        }
      )
    })
    progress.cancellationHandler = { [weak self] in self?.cancel() }
  }
}
