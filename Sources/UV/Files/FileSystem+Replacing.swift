internal import CUV

extension FileSystem {
  /// Runs `body` with a new file, which takes the place of what is at `path` when `body` has returned.
  ///
  /// Who opens `path` sees the old content or the new one, whole, also after a crash: the new file is written beside the old one, brought to
  /// the device, and renamed. When `body` throws, the task is cancelled or something fails, it is removed and the old one stays. When the
  /// process is killed, it stays under a name that begins with a dot.
  ///
  /// - Parameters:
  ///   - path: A symbolic link is followed. The directory must be writable; other hard links of the old file keep the old content.
  ///   - permissions: `nil` for those of the old file, or `0o666` less the process's `umask`.
  ///   - synchronizing: Whether to wait until content and name are on the device. Without that, only a crash of the system can leave
  ///     something else than the old or the new content.
  public static func withReplacement<Value>(
    of path: some FilePathConvertible, permissions: FilePermissions? = nil,
    synchronizing: Bool = true, loop: EventLoop = .shared, _ body: (File) async throws -> Value
  ) async throws -> Value {
    let replacement = try await FileReplacement(of: path.asFilePath(), on: loop)
    do {
      let file = try await replacement.open(permissions)
      let value = try await closing(file) { file in
        let value = try await body(file)
        if synchronizing { try await file.sync() }
        return value
      }
      try await replacement.commit(synchronizing: synchronizing)
      return value
    } catch {
      await replacement.discard()
      throw error
    }
  }

  /// Makes `bytes` the content of the file, all at once. As ``withReplacement(of:permissions:synchronizing:loop:_:)``.
  public static func replaceFile(
    at path: some FilePathConvertible, with bytes: [UInt8], permissions: FilePermissions? = nil,
    loop: EventLoop = .shared
  ) async throws {
    try await withReplacement(of: path, permissions: permissions, loop: loop) {
      try await $0.write(bytes)
    }
  }

  /// The same with a slice, a `Data`, the UTF-8 of a string.
  public static func replaceFile(
    at path: some FilePathConvertible, with bytes: some Collection<UInt8>,
    permissions: FilePermissions? = nil, loop: EventLoop = .shared
  ) async throws {
    try await replaceFile(at: path, with: Array(bytes), permissions: permissions, loop: loop)
  }

  /// The same with text, in UTF-8.
  public static func replaceFile(
    at path: some FilePathConvertible, with text: some StringProtocol,
    permissions: FilePermissions? = nil, loop: EventLoop = .shared
  ) async throws {
    try await replaceFile(at: path, with: Array(text.utf8), permissions: permissions, loop: loop)
  }
}

/// A file on its way to the place of another.
struct FileReplacement: Sendable {
  let loop: EventLoop
  let target: FilePath
  /// What is at the target now.
  let old: FileInfo?
  let temporary: FilePath

  init(of path: FilePath, on loop: EventLoop) async throws {
    self.loop = loop
    let link = try await Self.info(path, followingLinks: false, loop)
    if link?.kind == .symbolicLink {
      target = try await FileSystem.canonicalPath(of: path, loop: loop)
      old = try await Self.info(target, followingLinks: true, loop)
    } else {
      target = path
      old = link
    }
    // The name may have almost any length already.
    let name = FilePath(bytes: target.name.bytes.prefix(200))
    let suffix = String(UInt64.random(in: .min ... .max), radix: 36)
    temporary = target.parent.appending(
      FilePath(bytes: Array(".".utf8) + name.bytes + Array(".\(suffix)".utf8)))
  }

  private static func info(
    _ path: FilePath, followingLinks: Bool, _ loop: EventLoop
  ) async throws -> FileInfo? {
    do {
      return try await FileSystem.info(at: path, followingLinks: followingLinks, loop: loop)
    } catch let error as IOError where error.code == .noSuchFile {
      return nil
    }
  }

  func open(_ permissions: FilePermissions?) async throws -> File {
    if old?.kind == .directory { throw IOError(.isDirectory, "replace", target.description) }
    let exact = permissions ?? old?.permissions
    let file: File
    do {
      file = try await Self.finishing { [self] in
        try await File.open(
          at: temporary, [.reading, .writing, .exclusive],
          permissions: exact == nil ? 0o666 : 0o600, loop: loop)
      }
    } catch let error as IOError {
      // Nobody knows the temporary name.
      throw IOError(error.code, "replace", target.description)
    }
    guard let exact else { return file }
    do {
      try await file.setPermissions(exact)
    } catch {
      // What went wrong first is the error.
      try? await file.close()
      throw error
    }
    return file
  }

  /// Runs `body` to its end also when the task is cancelled meanwhile: a call that goes on unseen could make the new file, or put it in its
  /// place, after ``discard()``.
  static func finishing<Value: Sendable>(
    _ body: @escaping @Sendable () async throws -> Value
  ) async throws -> Value {
    try Task.checkCancellation()
    return try await Task { try await body() }.value
  }

  /// Puts the new file in its place, and waits until its name is on the device if that is wanted.
  func commit(synchronizing: Bool = false) async throws {
    try await Self.finishing { [self] in
      try await FileSystem.rename(temporary, to: target, loop: loop)
      guard synchronizing else { return }
      try await FileSystem.withFile(at: target.parent, loop: loop) { try await $0.sync() }
    }
  }

  /// Puts the new file in its place if there is nothing; `alreadyExists` otherwise.
  func commitIfAbsent() async throws {
    try await Self.finishing { [self] in
      try await FileSystem.createLink(at: target, to: temporary, loop: loop)
      try await FileSystem.removeFile(at: temporary, loop: loop)
    }
  }

  /// Removes the new file, also when the task is cancelled. What went wrong before is the error.
  func discard() async {
    _ = await Task { try await FileSystem.removeFile(at: temporary, loop: loop) }.result
  }
}
