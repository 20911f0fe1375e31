internal import CUV

extension FileSystem {
  /// Watches a file, or a directory and what is directly in it, from now on.
  ///
  /// Ends with the last copy of what is returned and its iterations, and when the loop shuts down.
  ///
  /// - Parameter interval: `nil` to be told by the system ([inotify](https://docs.libuv.org/en/v1.x/fs_event.html)), which does not see what
  ///   other machines do on a network file system. Otherwise how often to look at the file ([polling](https://docs.libuv.org/en/v1.x/fs_poll.html)),
  ///   to the millisecond; there need not be a file then, and of a directory only added and removed names are seen.
  /// - Throws: ``IOError`` such as `noSuchFile`, ``EventLoopClosed``.
  public static func watch(
    _ path: some FilePathConvertible, pollingEvery interval: Duration? = nil,
    loop: EventLoop = .shared
  ) async throws -> FileChanges {
    let path = try path.asFilePath().checked("watch")
    let core = WatchCore(loop: loop.core)
    let watch = Watch(core)
    try await loop.core.wait(.new) { continuation in
      continuation.resume(with: Result { try core.start(path, pollingEvery: interval) })
    } cancel: {
    }
    return FileChanges(watch: watch)
  }
}

/// A change that ``FileSystem/watch(_:pollingEvery:loop:)`` has seen.
public struct FileChange: Hashable, Sendable {
  public struct Kind: Hashable, Sendable, CustomStringConvertible {
    public let description: String

    /// The content or what ``FileInfo`` tells.
    public static let changed = Kind(description: "changed")
    /// A name: something was made, removed or renamed.
    public static let renamed = Kind(description: "renamed")
    /// More has happened than was kept for somebody who did not ask: anything may have changed.
    public static let overflow = Kind(description: "overflow")
  }

  public let kind: Kind
  /// The name within the directory that is watched, or of the file; `nil` where the system does not say.
  public let name: FilePath?
}

/// The changes of a file or directory, in order. A change that happens again before it was taken counts once.
public struct FileChanges: AsyncSequence, Sendable {
  fileprivate let watch: Watch

  public struct AsyncIterator: AsyncIteratorProtocol {
    fileprivate let watch: Watch

    /// The next change; `nil` when the loop has shut down.
    ///
    /// - Throws: ``IOError`` if the system ends the watching, `CancellationError`.
    public func next() async throws -> FileChange? {
      let core = watch.core
      let waiter = WatchCore.Waiter()
      do {
        return try await core.loop.wait { continuation in
          core.take(waiter) { continuation.resume(with: $0) }
        } cancel: {
          core.stopWaiting(waiter)
        }
      } catch is EventLoopClosed {
        return nil
      }
    }
  }

  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(watch: watch) }
}

/// Watches as long as somebody holds it.
private final class Watch: Sendable {
  let core: WatchCore

  init(_ core: WatchCore) { self.core = core }

  deinit {
    core.loop.perform { [core] in core.closeHandle() }
  }
}
