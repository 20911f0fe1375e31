internal import CUV

/// What can be done with files by their paths.
///
/// A path is a `String`, or a ``FilePath`` when its bytes may be anything. Any thread may call anything; the calls run in libuv's thread pool
/// (``ThreadPool``) and go through `loop`.
///
/// - Errors: ``IOError`` with what the system says, such as `noSuchFile` or `permissionDenied`, and with `invalidArgument` for a path with a
///   NUL; ``EventLoopClosed``.
/// - Cancelling: a call that still waits for a thread never runs. One that runs cannot be interrupted: `CancellationError` is thrown at once,
///   and what it does is done unseen.
public enum FileSystem {
  /// Opens the file at `path`, runs `body` with it, and closes it on every way out.
  ///
  /// - Parameter permissions: Those of a file that is made, less the process's `umask`.
  /// - Throws: As ``File/open(at:_:permissions:loop:)``; what `body` throws; or what closing reports.
  public static func withFile<Value>(
    at path: some FilePathConvertible, _ options: FileOptions = .reading,
    permissions: FilePermissions = 0o666, loop: EventLoop = .shared,
    _ body: (File) async throws -> Value
  ) async throws -> Value {
    let file = try await File.open(at: path, options, permissions: permissions, loop: loop)
    return try await closing(file, after: body)
  }

  /// Runs `body` with `file` and closes it on every way out. What `body` throws comes before what closing reports.
  static func closing<Value>(
    _ file: File, after body: (File) async throws -> Value
  ) async throws -> Value {
    let value: Value
    do {
      value = try await body(file)
    } catch {
      // What went wrong first is the error.
      try? await file.close()
      throw error
    }
    try await file.close()
    return value
  }

  /// Reads the whole file.
  public static func readFile(
    at path: some FilePathConvertible, loop: EventLoop = .shared
  ) async throws -> [UInt8] {
    try await withFile(at: path, loop: loop) { try await $0.readAll() }
  }

  /// Writes `bytes` as the content of the file, which is made if there is none, in the place of what was there before.
  ///
  /// When it fails, or the process ends meanwhile, the file has a part of the new content; `replaceFile` leaves it
  /// whole.
  public static func writeFile(
    _ bytes: [UInt8], to path: some FilePathConvertible,
    _ options: FileOptions = [.create, .truncate],
    permissions: FilePermissions = 0o666, loop: EventLoop = .shared
  ) async throws {
    try await withFile(at: path, options.union(.writing), permissions: permissions, loop: loop) {
      try await $0.write(bytes)
    }
  }

  /// Writes a slice, a `Data`, the UTF-8 of a string. As ``writeFile(_:to:_:permissions:loop:)-([UInt8],_,_,_,_)``.
  public static func writeFile(
    _ bytes: some Collection<UInt8>, to path: some FilePathConvertible,
    _ options: FileOptions = [.create, .truncate],
    permissions: FilePermissions = 0o666, loop: EventLoop = .shared
  ) async throws {
    try await writeFile(Array(bytes), to: path, options, permissions: permissions, loop: loop)
  }

  /// Writes `text` in UTF-8. As ``writeFile(_:to:_:permissions:loop:)-([UInt8],_,_,_,_)``.
  public static func writeFile(
    _ text: some StringProtocol, to path: some FilePathConvertible,
    _ options: FileOptions = [.create, .truncate],
    permissions: FilePermissions = 0o666, loop: EventLoop = .shared
  ) async throws {
    try await writeFile(
      Array(text.utf8), to: path, options, permissions: permissions, loop: loop)
  }

  // MARK: Information

  /// What the system knows of the file.
  ///
  /// - Parameter followingLinks: Whether that is of the file that a symbolic link leads to, or of the link itself.
  public static func info(
    at path: some FilePathConvertible, followingLinks: Bool = true, loop: EventLoop = .shared
  ) async throws -> FileInfo {
    try await loop.core.value(of: loop.core.info(path.asFilePath(), followingLinks))
  }

  /// Whether there is something at `path`; what a symbolic link leads to counts, unless `followingLinks` is false.
  public static func exists(
    at path: some FilePathConvertible, followingLinks: Bool = true, loop: EventLoop = .shared
  ) async throws -> Bool {
    do {
      _ = try await info(at: path, followingLinks: followingLinks, loop: loop)
      return true
    } catch let error as IOError where error.code == .noSuchFile || error.code == .notDirectory {
      return false
    }
  }

  /// Whether this process may do all that `access` names with the file, as far as permissions and the file system go: `access`. What is
  /// allowed now may fail a moment later.
  public static func mayAccess(
    _ path: some FilePathConvertible, for access: FileAccess, loop: EventLoop = .shared
  ) async throws -> Bool {
    do {
      try await call("access", path, loop) {
        uv_fs_access($0, $1, $2, access.rawValue, fileRequestIsDone)
      }
      return true
    } catch let error as IOError
      where [.permissionDenied, .notPermitted, .readOnlyFileSystem, .textFileBusy].contains(
        error.code)
    {
      return false
    }
  }

  /// How much room the file system has that `path` is on.
  public static func space(
    at path: some FilePathConvertible, loop: EventLoop = .shared
  ) async throws -> FileSystemSpace {
    try await call("space", path, loop) {
      uv_fs_statfs($0, $1, $2, fileRequestIsDone)
    } value: {
      FileSystemSpace($0.pointee.ptr.assumingMemoryBound(to: uv_statfs_t.self).pointee)
    }
  }

  // MARK: Calls

  typealias Call =
    @Sendable (
      UnsafeMutablePointer<uv_loop_t>, UnsafeMutablePointer<uv_fs_t>, UnsafePointer<CChar>
    ) -> CInt

  /// Makes one call of libuv about a path, and takes what it brings.
  ///
  /// - Parameter unclaimed: Gets that when nobody waits for it any more. Called on the loop thread.
  static func call<Value: Sendable>(
    _ operation: String, _ path: some FilePathConvertible, _ loop: EventLoop,
    _ call: @escaping Call,
    value: @escaping @Sendable (UnsafeMutablePointer<uv_fs_t>) throws -> Value,
    unclaimed: ((Value) -> Void)? = nil
  ) async throws -> Value {
    let request = try loop.core.request(operation, path.asFilePath(), call, value)
    request.unclaimed = unclaimed
    return try await loop.core.value(of: request)
  }

  /// Makes one call of libuv about a path that brings nothing.
  static func call(
    _ operation: String, _ path: some FilePathConvertible, _ loop: EventLoop,
    _ call: @escaping Call
  ) async throws {
    try await self.call(operation, path, loop, call) { _ in }
  }

  /// Makes one call of libuv about two paths.
  static func call(
    _ operation: String, _ path: some FilePathConvertible, _ other: some FilePathConvertible,
    _ loop: EventLoop,
    _ call:
      @escaping @Sendable (
        UnsafeMutablePointer<uv_loop_t>, UnsafeMutablePointer<uv_fs_t>, UnsafePointer<CChar>,
        UnsafePointer<CChar>
      ) -> CInt
  ) async throws {
    let path = try path.asFilePath().checked(operation)
    let other = try other.asFilePath().checked(operation)
    let subject = FileSubject(path: path, other: other)
    try await loop.core.value(
      of: FileRequest(loop: loop.core, operation, subject) { loop, request in
        path.withCString { path in
          other.withCString { call(loop, request, path, $0) }
        }
      })
  }
}

extension LoopCore {
  /// A call of libuv about a path.
  func request<Value: Sendable>(
    _ operation: String, _ path: FilePath, _ call: @escaping FileSystem.Call,
    _ value: @escaping @Sendable (UnsafeMutablePointer<uv_fs_t>) throws -> Value
  ) throws -> FileRequest<Value> {
    let path = try path.checked(operation)
    return FileRequest(loop: self, operation, FileSubject(path: path)) { loop, request in
      path.withCString { call(loop, request, $0) }
    } value: {
      try value($0)
    }
  }

  package func info(_ path: FilePath, _ followingLinks: Bool) throws -> InfoRequest {
    InfoRequest(loop: self, try path.checked("stat"), followingLinks)
  }
}

/// What somebody wants to do with a file.
public struct FileAccess: OptionSet, Hashable, Sendable {
  public let rawValue: CInt

  public init(rawValue: CInt) { self.rawValue = rawValue }

  public static let reading = FileAccess(rawValue: R_OK)
  public static let writing = FileAccess(rawValue: W_OK)
  public static let executing = FileAccess(rawValue: X_OK)
}

/// The room of a file system, in bytes.
public struct FileSystemSpace: Hashable, Sendable {
  public let total: Int
  /// What nobody uses.
  public let free: Int
  /// What a process without privileges may still use.
  public let available: Int
  /// How many files there can be, and how many more.
  public let files: Int
  public let freeFiles: Int

  init(_ system: uv_statfs_t) {
    func bytes(_ blocks: UInt64) -> Int {
      Int(clamping: blocks.multipliedReportingOverflow(by: system.f_bsize).partialValue)
    }
    total = bytes(system.f_blocks)
    free = bytes(system.f_bfree)
    available = bytes(system.f_bavail)
    files = Int(clamping: system.f_files)
    freeFiles = Int(clamping: system.f_ffree)
  }
}
