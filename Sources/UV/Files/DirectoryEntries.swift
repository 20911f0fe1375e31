internal import CUV

extension FileSystem {
  /// What is in the directory, in no order, without `.` and `..`.
  ///
  /// Nothing happens before the iteration, which throws what goes wrong and reads a few dozen entries ahead. What is added or removed meanwhile
  /// may be among them or not.
  public static func entries(
    of path: some FilePathConvertible, loop: EventLoop = .shared
  ) -> DirectoryEntries {
    DirectoryEntries(path: Result { try path.asFilePath() }, loop: loop)
  }
}

/// Something in a directory.
public struct DirectoryEntry: Hashable, Sendable {
  /// The directory's path and the name.
  public let path: FilePath
  /// What the directory says that it is: ``FileKind/unknown`` on some file systems, then ``FileSystem/info(at:followingLinks:loop:)`` knows.
  public let kind: FileKind

  public var name: FilePath { path.name }
}

/// What is in a directory, made by ``FileSystem/entries(of:loop:)``.
public struct DirectoryEntries: AsyncSequence, Sendable {
  let path: Result<FilePath, any Error>
  let loop: EventLoop

  /// Holds the directory open until its end or until it is dropped.
  public final class AsyncIterator: AsyncIteratorProtocol {
    private let loop: EventLoop
    private let path: Result<FilePath, any Error>
    private var reader: ReadAhead<[DirectoryEntry]>?
    private var entries: ArraySlice<DirectoryEntry> = []

    fileprivate init(_ directory: DirectoryEntries) {
      loop = directory.loop
      path = directory.path
    }

    deinit { reader?.drop() }

    public func next() async throws -> DirectoryEntry? {
      if let entry = entries.popFirst() { return entry }
      entries = try await opened().next()?[...] ?? []
      return entries.popFirst()
    }

    private func opened() throws -> ReadAhead<[DirectoryEntry]> {
      if let reader { return reader }
      let path = try path.get().checked("read directory")
      let reader = ReadAhead(loop: loop.core, DirectorySource(loop.core, path))
      self.reader = reader
      return reader
    }
  }

  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(self) }
}

/// An open directory. Nothing that is closed is read any more, and what is being read is not closed.
// Unchecked: the variables are loop thread only.
private final class DirectorySource: ReadAheadSource, @unchecked Sendable {
  /// libuv's directory, on its way through a request.
  private struct Directory: @unchecked Sendable {
    let pointer: UnsafeMutablePointer<uv_dir_t>
  }

  private static let batch = 64

  private let loop: LoopCore
  private let path: FilePath
  private let found = UnsafeMutablePointer<uv_dirent_t>.allocate(capacity: batch)
  private var directory: Directory?
  private var isBusy = false
  private var isStopped = false

  init(_ loop: LoopCore, _ path: FilePath) {
    self.loop = loop
    self.path = path
  }

  deinit {
    drop()
    found.deallocate()
  }

  func fetch(_ completion: @escaping (Result<[DirectoryEntry]?, any Error>) -> Void) {
    isBusy = true
    guard let directory else { return open(completion) }
    directory.pointer.pointee.dirents = found
    directory.pointer.pointee.nentries = Self.batch
    let request = FileRequest(loop: loop, "read directory", FileSubject(path: path)) {
      uv_fs_readdir($0, $1, directory.pointer, fileRequestIsDone)
    } value: {
      self.entries(count: $0.pointee.result)
    }
    start(request) { result in
      let entries = result.map { $0.isEmpty ? nil : $0 }
      switch entries {
      case .success(.some): break
      // The end. After an error too, and then a thread may still read: a loop that shuts down ends the waiting.
      case .success(nil), .failure: self.stop()
      }
      completion(entries)
    }
  }

  private func open(_ completion: @escaping (Result<[DirectoryEntry]?, any Error>) -> Void) {
    let path = path
    let request = FileRequest(loop: loop, "open directory", FileSubject(path: path)) {
      loop, request in
      path.withCString { uv_fs_opendir(loop, request, $0, fileRequestIsDone) }
    } value: {
      Directory(pointer: $0.pointee.ptr.assumingMemoryBound(to: uv_dir_t.self))
    }
    // Also when nobody waits for it any more.
    request.unclaimed = { self.directory = $0 }
    start(request) { result in
      switch result {
      case .success(let directory):
        self.directory = directory
        self.fetch(completion)
      case .failure(let error):
        self.stop()
        completion(.failure(error))
      }
    }
  }

  /// Starts a request, during which the directory stays open.
  private func start<Value>(
    _ request: FileRequest<Value>, _ completion: @escaping (Result<Value, any Error>) -> Void
  ) {
    request.whenDone = { _ in
      self.isBusy = false
      if self.isStopped { self.close() }
    }
    request.start(completion)
  }

  private func entries(count: Int) -> [DirectoryEntry] {
    UnsafeBufferPointer(start: found, count: count).map {
      DirectoryEntry(path: path.appending(FilePath(cString: $0.name)), kind: FileKind($0.type))
    }
  }

  func stop(_ entries: [DirectoryEntry]?) { stop() }

  private func stop() {
    isStopped = true
    if !isBusy { close() }
  }

  private func close() {
    guard let directory = directory.take() else { return }
    guard loop.takesRequests else { return closeNow(directory) }
    FileRequest(loop: loop, "close directory", FileSubject(path: path), mustFinish: true) {
      uv_fs_closedir($0, $1, directory.pointer, fileRequestIsDone)
    }
    .start { _ in }  // It cannot fail.
  }

  func drop() {
    if let directory = directory.take() { closeNow(directory) }
  }

  private func closeNow(_ directory: Directory) {
    var request = uv_fs_t()
    uv_fs_closedir(nil, &request, directory.pointer, nil)
    uv_fs_req_cleanup(&request)
  }
}
