internal import CUV

extension FileSystem {
  /// Makes a directory.
  ///
  /// - Parameters:
  ///   - permissions: Less the process's `umask`.
  ///   - withIntermediates: Whether missing directories on the way are made too; then one that is there already is no error.
  public static func createDirectory(
    at path: some FilePathConvertible, permissions: FilePermissions = 0o777,
    withIntermediates: Bool = false, loop: EventLoop = .shared
  ) async throws {
    let path = try path.asFilePath()
    do {
      try await call("create directory", path, loop) {
        uv_fs_mkdir($0, $1, $2, CInt(permissions.rawValue), fileRequestIsDone)
      }
    } catch let error as IOError where withIntermediates {
      switch error.code {
      case .noSuchFile where !path.isEmpty && path.parent != path:
        try await createDirectory(at: path.parent, withIntermediates: true, loop: loop)
        try await createDirectory(
          at: path, permissions: permissions, withIntermediates: true, loop: loop)
      case .alreadyExists where try await info(at: path, loop: loop).kind == .directory:
        break
      default:
        throw error
      }
    }
  }

  /// Removes an empty directory; `directoryNotEmpty` otherwise.
  public static func removeDirectory(
    at path: some FilePathConvertible, loop: EventLoop = .shared
  ) async throws {
    try await call("remove", path, loop) { uv_fs_rmdir($0, $1, $2, fileRequestIsDone) }
  }

  /// Removes what is at `path`: a file, a symbolic link but not what it leads to, or a directory with all that is in it.
  ///
  /// What others remove meanwhile is no error, what they add is. It goes by names, so nobody else should be able to put a symbolic link in
  /// the place of a directory of the tree meanwhile. After an error or a cancellation some of it is gone.
  public static func removeTree(
    at path: some FilePathConvertible, loop: EventLoop = .shared
  ) async throws {
    // With a slash at the end, a symbolic link would be what it leads to.
    let path = try path.asFilePath().removingTrailingSlashes()
    guard try await info(at: path, followingLinks: false, loop: loop).kind == .directory else {
      return try await removeFile(at: path, loop: loop)
    }
    var directories = [path]
    for try await entry in walk(path, loop: loop) {
      if entry.kind == .directory {
        directories.append(entry.path)
      } else {
        try await ignoringMissing { try await removeFile(at: entry.path, loop: loop) }
      }
    }
    // A directory comes before what is in it.
    for directory in directories.reversed() {
      try await ignoringMissing { try await removeDirectory(at: directory, loop: loop) }
    }
  }

  private static func ignoringMissing(_ body: () async throws -> Void) async throws {
    do { try await body() } catch let error as IOError where error.code == .noSuchFile {}
  }

  /// All that is in the directory and the directories in it, each before what is in it. Symbolic links are not followed.
  ///
  /// ```swift
  /// for try await entry in FileSystem.walk("src", entering: { $0.path.lastComponent != ".git" }) { ... }
  /// ```
  ///
  /// One directory is open at a time. A directory that is removed meanwhile is left out. Without `onError` the iteration throws what goes
  /// wrong and ends with that.
  ///
  /// - Parameters:
  ///   - isEntered: Whether what is in that directory is wanted too; called after the directory itself was given.
  ///   - onError: Gets what goes wrong with a directory below `path`, which is left out from there on: one that may not be read, say.
  public static func walk(
    _ path: some FilePathConvertible, loop: EventLoop = .shared,
    entering isEntered: @escaping @Sendable (_ directory: DirectoryEntry) -> Bool = { _ in true },
    onError: (@Sendable (IOError) -> Void)? = nil
  ) -> DirectoryTree {
    DirectoryTree(
      root: Result { try path.asFilePath() }, loop: loop, isEntered: isEntered, onError: onError)
  }

  // MARK: Temporary files

  /// Makes a directory that nobody else uses, runs `body` with its path, and removes it with all that is in it on every way out.
  ///
  /// - Parameter parent: Where; `nil` for the system's place for such things, which `TMPDIR` names or else is `/tmp`.
  public static func withTemporaryDirectory<Value>(
    in parent: FilePath? = nil, loop: EventLoop = .shared, _ body: (FilePath) async throws -> Value
  ) async throws -> Value {
    let path = try await call("create directory", template(in: parent), loop) {
      uv_fs_mkdtemp($0, $1, $2, fileRequestIsDone)
    } value: {
      FilePath(cString: $0.pointee.path)
    } unclaimed: { path in
      remove(path, on: loop) { uv_fs_rmdir($0, $1, $2, fileRequestIsDone) }
    }
    return try await cleaningUp {
      try await removeTemporaryDirectory(at: path, loop)
    } after: {
      try await body(path)
    }
  }

  /// What `body` has cancelled may still be at work in the pool, and make something in the directory while that is removed.
  private static func removeTemporaryDirectory(at path: FilePath, _ loop: EventLoop) async throws {
    for attempt in 1... {
      do {
        return try await ignoringMissing { try await removeTree(at: path, loop: loop) }
      } catch let error as IOError where error.code == .directoryNotEmpty && attempt < 20 {
        try await loop.sleep(for: .milliseconds(attempt))
      }
    }
  }

  /// Makes a file that nobody else uses, for reading and writing, runs `body` with it, and removes it on every way out.
  ///
  /// - Parameter parent: As for ``withTemporaryDirectory(in:loop:_:)``.
  public static func withTemporaryFile<Value>(
    in parent: FilePath? = nil, loop: EventLoop = .shared, _ body: (File) async throws -> Value
  ) async throws -> Value {
    let core = loop.core
    let made = try await call("create file", template(in: parent), loop) {
      uv_fs_mkstemp($0, $1, $2, fileRequestIsDone)
    } value: {
      FileCore(
        loop: core, descriptor: CInt($0.pointee.result), path: FilePath(cString: $0.pointee.path),
        isAppending: false)
    } unclaimed: { made in
      remove(made.path, on: loop) { uv_fs_unlink($0, $1, $2, fileRequestIsDone) }
    }
    return try await cleaningUp {
      try await ignoringMissing { try await removeFile(at: made.path, loop: loop) }
    } after: {
      try await closing(File(made, on: loop), after: body)
    }
  }

  /// Removes what was made when nobody waited for it any more. Loop thread only.
  private static func remove(_ path: FilePath, on loop: EventLoop, _ call: @escaping Call) {
    // Nobody is left to be told of an error.
    try? loop.core.request("remove", path, call) { _ in }.start { _ in }
  }

  private static func template(in parent: FilePath?) -> FilePath {
    (parent ?? temporaryDirectory).appending("swift-uv-XXXXXX")
  }

  private static var temporaryDirectory: FilePath {
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: 4_096) { buffer in
      var size = buffer.count
      return uv_os_tmpdir(buffer.baseAddress, &size) == 0
        ? FilePath(cString: buffer.baseAddress!) : "/tmp"
    }
  }

  /// Runs `body`, then `cleanUp`, which a cancellation does not stop. What `body` throws comes first.
  static func cleaningUp<Value>(
    _ cleanUp: @escaping @Sendable () async throws -> Void, after body: () async throws -> Value
  ) async throws -> Value {
    // A task of its own is not cancelled with the caller's.
    let value: Value
    do {
      value = try await body()
    } catch {
      _ = await Task { try await cleanUp() }.result
      throw error
    }
    try await Task { try await cleanUp() }.value
    return value
  }
}

/// What is in a directory and below, made by ``FileSystem/walk(_:loop:entering:onError:)``.
public struct DirectoryTree: AsyncSequence, Sendable {
  fileprivate let root: Result<FilePath, any Error>
  fileprivate let loop: EventLoop
  fileprivate let isEntered: @Sendable (DirectoryEntry) -> Bool
  fileprivate let onError: (@Sendable (IOError) -> Void)?

  public struct AsyncIterator: AsyncIteratorProtocol {
    private let tree: DirectoryTree
    private var current: DirectoryEntries.AsyncIterator
    private var isRoot = true
    private var pending: [DirectoryEntry] = []

    fileprivate init(_ tree: DirectoryTree) {
      self.tree = tree
      current = DirectoryEntries(path: tree.root, loop: tree.loop).makeAsyncIterator()
    }

    public mutating func next() async throws -> DirectoryEntry? {
      while true {
        if let entry = try await nextHere() {
          let known = try await withKind(entry)
          if known.kind == .directory { pending.append(known) }
          return known
        }
        guard let next = pending.popLast() else { return nil }
        guard tree.isEntered(next) else { continue }
        isRoot = false
        current = FileSystem.entries(of: next.path, loop: tree.loop).makeAsyncIterator()
      }
    }

    private func nextHere() async throws -> DirectoryEntry? {
      do {
        return try await current.next()
      } catch let error as IOError where !isRoot {
        if error.code == .noSuchFile { return nil }
        guard let onError = tree.onError else { throw error }
        onError(error)
        return nil
      }
    }

    private func withKind(_ entry: DirectoryEntry) async throws -> DirectoryEntry {
      guard entry.kind == .unknown else { return entry }
      let info = try await FileSystem.info(at: entry.path, followingLinks: false, loop: tree.loop)
      return DirectoryEntry(path: entry.path, kind: info.kind)
    }
  }

  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(self) }
}
