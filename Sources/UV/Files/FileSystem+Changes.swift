internal import CUV

extension FileSystem {
  /// Gives the file another name, which replaces a file of that name at once: nobody sees neither. Both must be on one file system, otherwise
  /// it fails with `crossDevice`.
  public static func rename(
    _ path: some FilePathConvertible, to newPath: some FilePathConvertible,
    loop: EventLoop = .shared
  ) async throws {
    try await call("rename", path, newPath, loop) {
      uv_fs_rename($0, $1, $2, $3, fileRequestIsDone)
    }
  }

  /// Removes a file or a symbolic link. Who has it open keeps it.
  public static func removeFile(
    at path: some FilePathConvertible, loop: EventLoop = .shared
  ) async throws {
    try await call("remove", path, loop) { uv_fs_unlink($0, $1, $2, fileRequestIsDone) }
  }

  /// Makes `path` another name of the file at `target`.
  public static func createLink(
    at path: some FilePathConvertible, to target: some FilePathConvertible,
    loop: EventLoop = .shared
  ) async throws {
    try await call("link", target, path, loop) { uv_fs_link($0, $1, $2, $3, fileRequestIsDone) }
  }

  /// Makes a symbolic link at `path` that leads to `target`, seen from the link's directory. There need not be anything.
  public static func createSymbolicLink(
    at path: some FilePathConvertible, to target: some FilePathConvertible,
    loop: EventLoop = .shared
  ) async throws {
    try await call("link", target, path, loop) {
      uv_fs_symlink($0, $1, $2, $3, 0, fileRequestIsDone)
    }
  }

  /// Where a symbolic link leads, as it was made.
  public static func readLink(
    at path: some FilePathConvertible, loop: EventLoop = .shared
  ) async throws -> FilePath {
    try await call("read link", path, loop) {
      uv_fs_readlink($0, $1, $2, fileRequestIsDone)
    } value: {
      FilePath(cString: $0.pointee.ptr.assumingMemoryBound(to: CChar.self))
    }
  }

  /// The absolute path of the file, without symbolic links, `.` or `..`.
  public static func canonicalPath(
    of path: some FilePathConvertible, loop: EventLoop = .shared
  ) async throws -> FilePath {
    try await call("resolve", path, loop) {
      uv_fs_realpath($0, $1, $2, fileRequestIsDone)
    } value: {
      FilePath(cString: $0.pointee.ptr.assumingMemoryBound(to: CChar.self))
    }
  }

  /// Sets who may do what with the file. A symbolic link is followed.
  public static func setPermissions(
    of path: some FilePathConvertible, to permissions: FilePermissions, loop: EventLoop = .shared
  ) async throws {
    try await call("set permissions", path, loop) {
      uv_fs_chmod($0, $1, $2, CInt(permissions.rawValue), fileRequestIsDone)
    }
  }

  /// Sets the owner; `nil` leaves what is there.
  ///
  /// - Parameter followingLinks: Whether that of the file that a symbolic link leads to is set, or that of the link itself.
  public static func setOwner(
    of path: some FilePathConvertible, userID: UInt32? = nil, groupID: UInt32? = nil,
    followingLinks: Bool = true, loop: EventLoop = .shared
  ) async throws {
    let (userID, groupID) = (userID ?? .max, groupID ?? .max)
    try await call("set owner", path, loop) {
      followingLinks
        ? uv_fs_chown($0, $1, $2, userID, groupID, fileRequestIsDone)
        : uv_fs_lchown($0, $1, $2, userID, groupID, fileRequestIsDone)
    }
  }

  /// Sets when the file was last read and changed, to the microsecond.
  ///
  /// - Parameter followingLinks: As for ``setOwner(of:userID:groupID:followingLinks:loop:)``.
  public static func setTimes(
    of path: some FilePathConvertible, accessed: FileTime, modified: FileTime,
    followingLinks: Bool = true, loop: EventLoop = .shared
  ) async throws {
    let (accessed, modified) = (accessed.inSeconds, modified.inSeconds)
    try await call("set times", path, loop) {
      followingLinks
        ? uv_fs_utime($0, $1, $2, accessed, modified, fileRequestIsDone)
        : uv_fs_lutime($0, $1, $2, accessed, modified, fileRequestIsDone)
    }
  }
}
