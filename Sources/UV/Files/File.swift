internal import CUV

/// An open file.
///
/// Any thread may call anything, and any number of calls may be under way. They run in libuv's thread pool (``ThreadPool``), so the loop
/// never waits for a disk. Whoever opens a file closes it; ``FileSystem/withFile(at:_:permissions:loop:_:)`` does it on every way out. A file
/// that is dropped while open is closed, and debug builds say so through ``Report``.
///
/// - Offsets: in bytes. A call with an offset neither uses nor moves the cursor. Those without go on where the last such call ended, one
///   after the other. A pipe or a terminal has no offsets.
/// - Cancelling: a call that still waits for a thread never runs. One that runs cannot be interrupted: `CancellationError` is thrown at once,
///   and what it does is finished unseen, so after a write some of the bytes may be in the file. Calls that use the caller's memory throw
///   when they have let go of it.
/// - Shutdown: until the grace period of ``EventLoop/shutdown(gracePeriod:)`` is over, open files go on. Then calls throw ``EventLoopClosed``;
///   the file is still to be closed.
public final class File: Sendable {
  /// The path that the file was opened by.
  public var path: FilePath { core.path }

  /// The loop that the file's calls go through.
  public let loop: EventLoop

  package let core: FileCore

  package init(_ core: FileCore, on loop: EventLoop) {
    self.core = core
    self.loop = loop
  }

  deinit {
    if !core.loop.perform({ [core] in core.wasDropped() }) { core.closeNow() }
  }

  /// Opens the file at `path`, which the caller has to close.
  ///
  /// Any thread. Opening a FIFO that has no other end keeps a thread of the pool until somebody opens that; a cancelled call lets go at
  /// once, and closes the file when it is open at last.
  ///
  /// - Parameters:
  ///   - permissions: Those of a file that is made, less the process's `umask`.
  /// - Throws: ``IOError`` such as `noSuchFile`, `permissionDenied` or `tooManyOpenFiles`; `invalidArgument` for a path with a NUL;
  ///   ``EventLoopClosed``.
  public static func open(
    at path: some FilePathConvertible, _ options: FileOptions = .reading,
    permissions: FilePermissions = 0o666, loop: EventLoop = .shared
  ) async throws -> File {
    File(
      try await loop.core.value(
        of: loop.core.opening(path.asFilePath(), options, permissions)), on: loop)
  }

  /// Closes the file when the calls that were made before have ended.
  ///
  /// Any thread, any number of times: every call returns when the file is closed. Later calls throw ``FileClosed``. Cancelling the task has
  /// no effect. A call that was cancelled while it runs keeps the descriptor open until it ends, but not those who wait here: what closing
  /// reports then goes to ``Report``.
  ///
  /// - Throws: ``IOError`` if the system reports now what went wrong with earlier writes. The file is closed all the same.
  public func close() async throws {
    let result: Result<Void, any Error> = await withUnsafeContinuation { continuation in
      let isAccepted = core.loop.perform { [core] in
        core.close { continuation.resume(returning: $0) }
      }
      if !isAccepted { continuation.resume(returning: core.closeNow()) }
    }
    try result.get()
  }

  // MARK: About the file

  /// What the system knows of the file.
  ///
  /// Any thread.
  ///
  /// - Throws: ``IOError``, ``FileClosed``, `CancellationError`, ``EventLoopClosed``.
  public func info() async throws -> FileInfo {
    try await value(of: "stat") {
      uv_fs_fstat($0, $1, $2, fileRequestIsDone)
    } value: {
      FileInfo($0.pointee.statbuf)
    }
  }

  /// Returns when content and information of the file are on the device: `fsync`. Otherwise as ``info()``.
  public func sync() async throws {
    try await value(of: "sync") { uv_fs_fsync($0, $1, $2, fileRequestIsDone) }
  }

  /// Returns when the content of the file is on the device: `fdatasync`. Otherwise as ``info()``.
  public func dataSync() async throws {
    try await value(of: "sync") { uv_fs_fdatasync($0, $1, $2, fileRequestIsDone) }
  }

  /// Makes the file `size` bytes long; what it gains reads as zeros. Otherwise as ``info()``.
  public func truncate(to size: Int) async throws {
    try await value(of: "truncate") { uv_fs_ftruncate($0, $1, $2, Int64(size), fileRequestIsDone) }
  }

  /// Sets who may do what with the file. Otherwise as ``info()``.
  public func setPermissions(_ permissions: FilePermissions) async throws {
    try await value(of: "set permissions") {
      uv_fs_fchmod($0, $1, $2, CInt(permissions.rawValue), fileRequestIsDone)
    }
  }

  /// Sets the owner; `nil` leaves what is there. Otherwise as ``info()``.
  public func setOwner(userID: UInt32? = nil, groupID: UInt32? = nil) async throws {
    try await value(of: "set owner") {
      uv_fs_fchown($0, $1, $2, userID ?? .max, groupID ?? .max, fileRequestIsDone)
    }
  }

  /// Sets when the file was last read and changed, to the microsecond. Otherwise as ``info()``.
  public func setTimes(accessed: FileTime, modified: FileTime) async throws {
    try await value(of: "set times") {
      uv_fs_futime($0, $1, $2, accessed.inSeconds, modified.inSeconds, fileRequestIsDone)
    }
  }

  private typealias Call =
    @Sendable (UnsafeMutablePointer<uv_loop_t>, UnsafeMutablePointer<uv_fs_t>, CInt) -> CInt

  private func value(of operation: String, _ call: @escaping Call) async throws {
    try await value(of: operation, call, value: { _ in })
  }

  private func value<Value: Sendable>(
    of operation: String, _ call: @escaping Call,
    value: @escaping @Sendable (UnsafeMutablePointer<uv_fs_t>) -> Value
  ) async throws -> Value {
    let request = core.request(operation, call, value)
    return try await core.loop.value(of: request, .existing)
  }
}

extension LoopCore {
  package func opening(
    _ path: FilePath, _ options: FileOptions, _ permissions: FilePermissions
  ) throws -> FileRequest<FileCore> {
    let path = try path.checked("open")
    let request = FileRequest(loop: self, "open", FileSubject(path: path)) { loop, request in
      path.withCString {
        uv_fs_open(
          loop, request, $0, options.flags, CInt(permissions.rawValue), fileRequestIsDone)
      }
    } value: {
      // One that nobody takes closes the descriptor when it goes.
      FileCore(
        loop: self, descriptor: CInt($0.pointee.result), path: path,
        isAppending: options.contains(.appending))
    }
    return request
  }
}
