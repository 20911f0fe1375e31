internal import CUV

/// What the system knows of a file.
public struct FileInfo: Hashable, Sendable {
  /// What kind of thing it is.
  public let kind: FileKind
  /// In bytes. What a file of `/proc` or `/sys` has is not said by its size.
  public let size: Int
  public let permissions: FilePermissions
  public let userID: UInt32
  public let groupID: UInt32
  /// When the content was last changed.
  public let modified: FileTime
  /// When the content was last read, as far as the file system keeps that.
  public let accessed: FileTime
  /// When content, permissions, owner or links were last changed.
  public let statusChanged: FileTime
  /// When the file was made; zero if the file system does not keep that.
  public let created: FileTime
  /// How many names the file has.
  public let links: Int
  /// In bytes: less than ``size`` for a file with holes.
  public let allocatedSize: Int
  /// The device the file is on. With ``inode`` it tells files apart.
  public let device: UInt64
  public let inode: UInt64
  /// The device that a file of kind ``FileKind/blockDevice`` or ``FileKind/characterDevice`` stands for.
  public let representedDevice: UInt64
  /// The size of a transfer that the file system prefers, in bytes.
  public let blockSize: Int

  init(_ stat: uv_stat_t) {
    kind = FileKind(mode: stat.st_mode)
    size = Int(clamping: stat.st_size)
    permissions = FilePermissions(rawValue: UInt16(truncatingIfNeeded: stat.st_mode & 0o7777))
    userID = UInt32(truncatingIfNeeded: stat.st_uid)
    groupID = UInt32(truncatingIfNeeded: stat.st_gid)
    modified = FileTime(stat.st_mtim)
    accessed = FileTime(stat.st_atim)
    statusChanged = FileTime(stat.st_ctim)
    created = FileTime(stat.st_birthtim)
    links = Int(clamping: stat.st_nlink)
    // In these units whatever the block size is.
    allocatedSize = Int(clamping: stat.st_blocks) * 512
    device = stat.st_dev
    inode = stat.st_ino
    representedDevice = stat.st_rdev
    blockSize = Int(clamping: stat.st_blksize)
  }

  /// Whether both are the same file, by whatever names.
  public func isSameFile(as other: FileInfo) -> Bool {
    device == other.device && inode == other.inode
  }
}

/// What kind of thing a file is.
public struct FileKind: Hashable, Sendable, CustomStringConvertible {
  public let description: String

  public static let regular = FileKind(description: "regular file")
  public static let directory = FileKind(description: "directory")
  public static let symbolicLink = FileKind(description: "symbolic link")
  public static let fifo = FileKind(description: "FIFO")
  public static let socket = FileKind(description: "socket")
  public static let characterDevice = FileKind(description: "character device")
  public static let blockDevice = FileKind(description: "block device")
  /// The system did not say: some file systems do not when a directory is read.
  public static let unknown = FileKind(description: "file of unknown kind")

  init(description: String) { self.description = description }

  init(mode: UInt64) {
    self =
      switch CInt(truncatingIfNeeded: mode) & S_IFMT {
      case S_IFREG: .regular
      case S_IFDIR: .directory
      case S_IFLNK: .symbolicLink
      case S_IFIFO: .fifo
      case S_IFSOCK: .socket
      case S_IFCHR: .characterDevice
      case S_IFBLK: .blockDevice
      default: .unknown
      }
  }

  init(_ type: uv_dirent_type_t) {
    self =
      switch type {
      case UV_DIRENT_FILE: .regular
      case UV_DIRENT_DIR: .directory
      case UV_DIRENT_LINK: .symbolicLink
      case UV_DIRENT_FIFO: .fifo
      case UV_DIRENT_SOCKET: .socket
      case UV_DIRENT_CHAR: .characterDevice
      case UV_DIRENT_BLOCK: .blockDevice
      default: .unknown
      }
  }
}

/// Who may do what with a file, written as for `chmod`: `0o644`.
public struct FilePermissions: RawRepresentable, Hashable, Sendable, ExpressibleByIntegerLiteral {
  public let rawValue: UInt16

  public init(rawValue: UInt16) { self.rawValue = rawValue }
  public init(integerLiteral value: UInt16) { rawValue = value }
}

extension FilePermissions: CustomStringConvertible {
  /// As `ls` shows them without special bits, such as `rw-r--r--`.
  public var description: String {
    String(
      (0..<9).map { bit in
        rawValue & (0o400 >> bit) == 0 ? "-" : ["r", "w", "x"][bit % 3] as Character
      })
  }
}

/// A point in time as files have it, counted from 1970-01-01 00:00 UTC.
public struct FileTime: Hashable, Sendable, Comparable {
  public let seconds: Int
  /// 0 to 999,999,999, to be added to ``seconds``.
  public let nanoseconds: Int

  /// - Parameter nanoseconds: Any number; what makes whole seconds is carried over.
  public init(seconds: Int, nanoseconds: Int = 0) {
    let second = 1_000_000_000
    let rest = (nanoseconds % second + second) % second
    self.seconds = seconds + (nanoseconds - rest) / second
    self.nanoseconds = rest
  }

  init(_ time: uv_timespec_t) {
    self.init(seconds: time.tv_sec, nanoseconds: time.tv_nsec)
  }

  public static var now: FileTime {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return FileTime(seconds: time.tv_sec, nanoseconds: time.tv_nsec)
  }

  public static func < (left: FileTime, right: FileTime) -> Bool {
    (left.seconds, left.nanoseconds) < (right.seconds, right.nanoseconds)
  }

  /// As libuv takes it.
  var inSeconds: Double { Double(seconds) + Double(nanoseconds) / 1e9 }
}
