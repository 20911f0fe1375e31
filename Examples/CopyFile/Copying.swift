import UV

/// Copies each of `sources` to `destination`, or into it if it is a directory. What fails is reported, and the next one follows.
///
/// - Returns: Whether nothing has failed.
/// - Throws: `CancellationError`.
func copy(_ sources: some Collection<FilePath>, to destination: FilePath) async throws -> Bool {
  var copies: Set<FilePath> = []
  var failures = 0
  for source in sources {
    do {
      let copy =
        try await isDirectory(destination) ? destination.appending(source.name) : destination
      guard copies.insert(copy).inserted else { throw DestinationTaken(source, copy) }
      try await copyFile(source, to: copy)
    } catch let error as CancellationError {
      throw error
    } catch {
      complain("\(error)")
      failures += 1
    }
  }
  return failures == 0
}

private func copyFile(_ source: FilePath, to copy: FilePath) async throws {
  let progress = ProgressLine(of: source)
  defer { progress.clear() }
  try await FileSystem.copyFile(from: source, to: copy, keepingTimes: true) { progress.show($0) }
  progress.finish("\(source) -> \(copy)")
}

private func isDirectory(_ path: FilePath) async throws -> Bool {
  do {
    return try await FileSystem.info(at: path).kind == .directory
  } catch let error as IOError where error.code == .noSuchFile {
    return false
  }
}

/// Two sources would become one file.
struct DestinationTaken: Error, CustomStringConvertible {
  let description: String

  init(_ source: FilePath, _ copy: FilePath) {
    description = "copy \(source) to \(copy): another source was to be copied there"
  }
}
