internal import CUV
internal import Glibc
internal import Synchronization

extension FileSystem {
  /// Copies the content and the permissions of a file, but for those that would give the copy's owner's rights to who runs it.
  ///
  /// The copy has its name only when it is complete, as with ``withReplacement(of:permissions:synchronizing:loop:_:)`` but without waiting
  /// for the device. It shares its blocks with the source where the file system can do that, and has its holes. A destination that is no
  /// regular file, such as a device, is written to.
  ///
  /// - Parameters:
  ///   - overwriting: Whether a file at `destination` is replaced; otherwise it is `alreadyExists`.
  ///   - keepingTimes: Whether the copy gets the times of the source, to the microsecond.
  ///   - progress: Called several times a second, and at the end.
  /// - Throws: ``SameFile`` if both are the same; ``IOError``, such as `isDirectory` for a directory. What was copied is removed then, as it is
  ///   when the task is cancelled.
  public static func copyFile(
    from source: some FilePathConvertible, to destination: some FilePathConvertible,
    overwriting: Bool = true, keepingTimes: Bool = false, loop: EventLoop = .shared,
    progress: (FileCopyProgress) -> Void = { _ in }
  ) async throws {
    let source = try source.asFilePath()
    let destination = try destination.asFilePath()
    try await withFile(at: source, loop: loop) { input in
      let copy = try await FileCopy(
        input, to: destination, overwriting: overwriting, keepingTimes: keepingTimes)
      try await copy.run(progress)
    }
  }

  fileprivate static func copy(
    _ input: File, _ info: FileInfo, to output: File, keepingHoles: Bool,
    _ progress: (FileCopyProgress) -> Void
  ) async throws {
    let isSimple = info.kind == .regular && output.core.isSeekable
    let hasHoles = info.allocatedSize < info.size
    var state = CopyState(isRegular: isSimple, hasHoles: isSimple && hasHoles && keepingHoles)
    while !state.isAtEnd {
      let step = CopyStep(from: input.core, to: output.core, state)
      state = try await input.loop.core.value(of: step, .existing)
      progress(FileCopyProgress(copied: state.offset, total: max(info.size, state.offset)))
    }
    // A hole at the end.
    if state.hasHoles { try await output.truncate(to: state.offset) }
  }
}

/// How far a copy is, in bytes.
public struct FileCopyProgress: Hashable, Sendable {
  public let copied: Int
  /// What the source's size was when the copy began, or what has been copied if that is more.
  public let total: Int
}

/// A file was to be copied to itself.
public struct SameFile: Error, Hashable, Sendable, CustomStringConvertible {
  public let path: FilePath
  public let other: FilePath

  init(_ path: FilePath, _ other: FilePath) {
    self.path = path
    self.other = other
  }

  public var description: String { "copy \(path) to \(other): they are the same file" }
}

/// A copy to a file that gets its name when it is complete.
private struct FileCopy {
  private let source: File
  private let info: FileInfo
  private let replacement: FileReplacement
  private let overwriting: Bool
  private let keepingTimes: Bool

  init(
    _ source: File, to destination: FilePath, overwriting: Bool, keepingTimes: Bool
  ) async throws {
    self.source = source
    self.overwriting = overwriting
    self.keepingTimes = keepingTimes
    info = try await source.info()
    if info.kind == .directory { throw IOError(.isDirectory, "copy", source.path.description) }
    replacement = try await FileReplacement(of: destination, on: source.loop)
    guard let old = replacement.old else { return }
    if old.isSameFile(as: info) { throw SameFile(source.path, destination) }
    if !overwriting { throw IOError(.alreadyExists, "copy", destination.description) }
    if old.kind == .directory { throw IOError(.isDirectory, "copy", destination.description) }
  }

  func run(_ progress: (FileCopyProgress) -> Void) async throws {
    if let old = replacement.old, old.kind != .regular {
      return try await FileSystem.withFile(
        at: replacement.target, .writing, loop: source.loop
      ) {
        // What a device has where the source has a hole would stay.
        try await FileSystem.copy(source, info, to: $0, keepingHoles: false, progress)
      }
    }
    do {
      if try await isCloned() {
        if info.permissions != permissions {
          try await FileSystem.setPermissions(
            of: replacement.temporary, to: permissions, loop: source.loop)
        }
        progress(FileCopyProgress(copied: info.size, total: info.size))
      } else {
        try await FileSystem.closing(replacement.open(permissions)) {
          try await FileSystem.copy(source, info, to: $0, keepingHoles: true, progress)
        }
      }
      if keepingTimes {
        // By its name: a copy that may not be written cannot be opened again.
        try await FileSystem.setTimes(
          of: replacement.temporary, accessed: info.accessed, modified: info.modified,
          loop: source.loop)
      }
      if overwriting {
        try await replacement.commit()
      } else {
        try await replacement.commitIfAbsent()
      }
    } catch {
      await replacement.discard()
      throw error
    }
  }

  /// Those of the source without set-user-ID and set-group-ID: the copy has another owner.
  private var permissions: FilePermissions {
    FilePermissions(rawValue: info.permissions.rawValue & 0o1777)
  }

  /// Whether the file system has made the new file from the blocks of the source.
  private func isCloned() async throws -> Bool {
    guard info.kind == .regular, info.size > 0 else { return false }
    do {
      try await FileReplacement.finishing { [source, replacement] in
        try await FileSystem.call("clone", source.path, replacement.temporary, source.loop) {
          uv_fs_copyfile(
            $0, $1, $2, $3, UV_FS_COPYFILE_EXCL | UV_FS_COPYFILE_FICLONE_FORCE, fileRequestIsDone)
        }
      }
      return true
    } catch is IOError {
      // It has removed what it made. Why it could not be done will show if it matters.
      return false
    }
  }
}

/// Where a copy stands.
private struct CopyState: Sendable {
  var offset = 0
  /// Whether the kernel may copy from file to file, at offsets.
  var isRegular: Bool
  var hasHoles: Bool
  var isAtEnd = false
}

/// What can be copied in a moment, in the thread pool. Loop thread only.
private final class CopyStep: LoopRequest {
  private let request: WorkRequest<CopyState>
  private let input: FileCore
  private let output: FileCore

  init(from input: FileCore, to output: FileCore, _ state: CopyState) {
    self.input = input
    self.output = output
    let (from, to) = (input.descriptor, output.descriptor)
    let subject = FileSubject(path: input.path, other: output.path)
    request = WorkRequest(loop: input.loop, "copy", subject) { isStopped in
      var copier = Copier(from: from, to: to, state)
      return Result {
        do throws(Failure) {
          try copier.run(isStopped)
        } catch {
          throw IOError(error.status, "copy", subject.description)
        }
        return copier.state
      }
    }
  }

  func start(_ completion: @escaping (Result<CopyState, any Error>) -> Void) {
    // Both stay open until libuv is done, also when nobody waits for it any more.
    input.hold()
    request.whenDone = { _ in self.input.letGo() }
    output.start(request, wasWaiting: true, completion)
  }

  func cancel(_ error: any Error) { request.cancel(error) }
}

/// Copies on a thread of the pool.
private struct Copier {
  /// How much is copied before the next look at the time, and whether somebody still waits for it.
  private static let piece = 16 << 20
  /// How long one visit to the pool takes, in nanoseconds. Each costs some hops between threads.
  private static let time: UInt64 = 50_000_000

  let from: CInt
  let to: CInt
  var state: CopyState

  init(from: CInt, to: CInt, _ state: CopyState) {
    self.from = from
    self.to = to
    self.state = state
  }

  mutating func run(_ isStopped: borrowing Atomic<Bool>) throws(Failure) {
    let timeEnd = uv_hrtime() + Self.time
    repeat {
      let dataEnd = try skipHole()
      if state.isAtEnd { return }
      let limit = min(state.offset + Self.piece, dataEnd)
      let isCopied = state.isRegular ? try copyInKernel(upTo: limit) : false
      if !isCopied { try copyByHand(upTo: limit, isStopped) }
      // Nobody knows how long the next piece of something else than a file takes to come.
    } while !state.isAtEnd && state.isRegular && uv_hrtime() < timeEnd
      && !isStopped.load(ordering: .relaxed)
  }

  /// Goes on to the next data. Returns where that ends, as far as it is known.
  private mutating func skipHole() throws(Failure) -> Int {
    guard state.hasHoles else { return .max }
    let data = lseek(from, state.offset, SEEK_DATA)
    guard data >= 0 else {
      // No data is left: what follows up to the end is a hole. A file system that does not know holes has them all as data.
      guard errno == ENXIO else { throw Failure(status: uv_translate_sys_error(errno)) }
      state.offset = max(state.offset, lseek(from, 0, SEEK_END))
      state.isAtEnd = true
      return state.offset
    }
    state.offset = data
    let hole = lseek(from, data, SEEK_HOLE)
    return hole > data ? hole : .max
  }

  /// Has the kernel copy. Returns whether it has copied something: of some files it sees nothing, and at the end there is nothing.
  private mutating func copyInKernel(upTo limit: Int) throws(Failure) -> Bool {
    guard lseek(to, state.offset, SEEK_SET) >= 0 else {
      throw Failure(status: uv_translate_sys_error(errno))
    }
    let (from, to, offset) = (from, to, state.offset)
    let count = retrying { request in
      uv_fs_sendfile(nil, request, to, from, Int64(offset), limit - offset, nil)
    }
    if count < 0 { throw Failure(status: CInt(clamping: count)) }
    state.offset += count
    return count > 0
  }

  private mutating func copyByHand(
    upTo limit: Int, _ isStopped: borrowing Atomic<Bool>
  ) throws(Failure) {
    let input = FileInput(descriptor: from, untilFull: false)
    let offset = state.isRegular ? state.offset : nil
    let bytes = try input.bytes(
      upTo: min(131_072, limit - state.offset), at: offset, isStopped
    ).get()
    if bytes.isEmpty {
      state.isAtEnd = true
      return
    }
    var output = FileOutput(descriptor: to, offset: offset)
    output.write(bytes, isStopped)
    if let failure = output.failure { throw Failure(status: failure) }
    state.offset += output.written
  }
}
