internal import CUV

/// How a file is opened. A descriptor is never left to child processes.
///
/// Without ``reading`` and ``writing`` it is for writing if it is to be made or emptied, otherwise for reading.
public struct FileOptions: OptionSet, Hashable, Sendable {
  public let rawValue: UInt32

  public init(rawValue: UInt32) { self.rawValue = rawValue }

  public static let reading = FileOptions(rawValue: 1 << 0)  // O_RDONLY, with writing O_RDWR
  public static let writing = FileOptions(rawValue: 1 << 1)  // O_WRONLY
  /// Every write goes to the end, whatever its offset: `O_APPEND`.
  public static let appending: FileOptions = [.writing, FileOptions(rawValue: 1 << 2)]
  /// Makes the file if there is none: `O_CREAT`.
  public static let create = FileOptions(rawValue: 1 << 3)
  /// Makes the file, and fails with ``IOError/Code/alreadyExists`` if there is something of that name: `O_CREAT | O_EXCL`.
  public static let exclusive: FileOptions = [.create, FileOptions(rawValue: 1 << 4)]
  /// Throws the content away: `O_TRUNC`.
  public static let truncate = FileOptions(rawValue: 1 << 5)
  /// Fails with ``IOError/Code/tooManySymbolicLinks`` if the name is one of a symbolic link: `O_NOFOLLOW`.
  public static let notFollowing = FileOptions(rawValue: 1 << 6)
  /// A write returns when its bytes are on the device: `O_DSYNC`.
  public static let synchronous = FileOptions(rawValue: 1 << 7)

  var flags: CInt {
    var flags: CInt
    switch (contains(.reading), contains(.writing)) {
    case (true, true): flags = O_RDWR
    case (false, true): flags = O_WRONLY
    case (false, false) where !isDisjoint(with: [.create, .exclusive, .truncate]): flags = O_WRONLY
    default: flags = O_RDONLY
    }
    if contains(.appending) { flags |= O_APPEND }
    if contains(.create) { flags |= O_CREAT }
    if contains(.exclusive) { flags |= O_EXCL }
    if contains(.truncate) { flags |= O_TRUNC }
    if contains(.notFollowing) { flags |= O_NOFOLLOW }
    if contains(.synchronous) { flags |= O_DSYNC }
    return flags | O_CLOEXEC
  }
}
