import UV

extension AppendOnlyFile {
  /// Opens or makes the file at `path`, carries out what is in it, and from then on gets the changes.
  ///
  /// A last command that is not complete was being written when the process or the machine ended: it is reported and cut off.
  ///
  /// - Throws: ``CorruptFile`` if it has something else than commands in it, which leaves it as it is; `IOError`.
  static func open(
    at path: FilePath, _ policy: SyncPolicy, for server: ServerState, loop: EventLoop
  ) async throws -> AppendOnlyFile {
    let file = try await File.open(at: path, [.reading, .appending, .create], loop: loop)
    do {
      try await load(file, server)
      try await syncDirectory(of: path, loop)
      return try AppendOnlyFile(file, policy)
    } catch {
      // What went wrong first is the error.
      try? await file.close()
      throw error
    }
  }

  private static func load(_ file: File, _ server: ServerState) async throws {
    // Not the limit of the clients: the file has the names of commands too, and may be of a time with another limit.
    let session = Session(server, inputSize: 1 << 20, bulkLimit: 1 << 40)
    var offset = 0
    while let count = try await file.read(into: session.makeRoom(), at: offset) {
      offset += count
      session.received(count)
      try replay(session, file.path, upTo: offset)
    }
    let torn = session.unused.count
    guard torn > 0 else { return }
    try await file.truncate(to: offset - torn)
    try await file.dataSync()
    complain("\(file.path): the last command is not complete; its \(torn) bytes were cut off")
  }

  /// Carries out the commands that are complete.
  private static func replay(_ session: Session, _ path: FilePath, upTo end: Int) throws {
    while let first = session.unused.first {
      let start = end - session.unused.count
      // Not a line for people: half of any text is the beginning of one, and would be cut off.
      guard first == UInt8(ascii: "*") else { throw CorruptFile(path, start, "no array") }
      session.replies.removeAll()
      do {
        guard try session.runNext() else { return }
      } catch {
        throw CorruptFile(path, start, "\(error)")
      }
      if session.replies.bytes.first == UInt8(ascii: "-") {
        let reason = session.replies.bytes.withUnsafeBytes {
          Bytes(rebasing: $0[1..<$0.count - 2]).text(upTo: 200)
        }
        throw CorruptFile(path, start, reason)
      }
    }
  }

  /// So that a file which was just made still has its name after the machine ended.
  private static func syncDirectory(of path: FilePath, _ loop: EventLoop) async throws {
    try await FileSystem.withFile(at: path.parent, loop: loop) { try await $0.sync() }
  }
}

/// A file that is not, or not only, what this server writes.
struct CorruptFile: Error, CustomStringConvertible {
  let description: String

  init(_ path: FilePath, _ offset: Int, _ reason: String) {
    description = "\(path): no command at byte \(offset): \(reason)"
  }
}
