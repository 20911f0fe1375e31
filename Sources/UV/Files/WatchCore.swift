internal import CUV

/// A libuv handle that watches a path, and the changes that nobody has taken yet. Loop thread only, but for `init`.
// Unchecked: as HandleCore.
package final class WatchCore: HandleCore, @unchecked Sendable {
  typealias Completion = (Result<FileChange?, any Error>) -> Void

  private static let limit = 256

  private var path: FilePath = ""
  private var changes: [FileChange] = []
  private var waiting: [Waiter] = []
  private var failure: IOError?
  /// What polling saw last.
  private var wasThere = true

  init(loop: LoopCore) {
    super.init(
      loop: loop,
      size: max(MemoryLayout<uv_fs_event_t>.size, MemoryLayout<uv_fs_poll_t>.size))
  }

  func start(_ path: FilePath, pollingEvery interval: Duration?) throws(IOError) {
    self.path = path
    // A watch that was dropped meanwhile.
    guard phase == .unopened else { throw IOError(.cancelled, "watch", path.description) }
    var status: CInt
    if let interval {
      let poll = memory.assumingMemoryBound(to: uv_fs_poll_t.self)
      status = uv_fs_poll_init(loop.uv, poll)
      if status == 0 {
        opened()
        let milliseconds = (interval.clampedNanoseconds + 999_999) / 1_000_000
        status = path.withCString {
          uv_fs_poll_start(poll, pollDidNotice, $0, UInt32(clamping: max(1, milliseconds)))
        }
      }
    } else {
      let event = memory.assumingMemoryBound(to: uv_fs_event_t.self)
      status = uv_fs_event_init(loop.uv, event)
      if status == 0 {
        opened()
        status = path.withCString { uv_fs_event_start(event, eventDidHappen, $0, 0) }
      }
    }
    guard status == 0 else {
      closeHandle()
      throw IOError(status, "watch", path.description)
    }
  }

  // MARK: Changes

  /// Somebody who waits for a change.
  // Unchecked: loop thread only, but for `init`.
  final class Waiter: @unchecked Sendable {
    fileprivate var completion: Completion?

    fileprivate func end(_ result: Result<FileChange?, any Error>) { completion.take()?(result) }
  }

  func take(_ waiter: Waiter, _ completion: @escaping Completion) {
    if !changes.isEmpty {
      completion(.success(changes.removeFirst()))
    } else if let failure {
      completion(.failure(failure))
    } else if !isOpen {
      completion(.success(nil))
    } else {
      waiter.completion = completion
      waiting.append(waiter)
    }
  }

  func stopWaiting(_ waiter: Waiter) {
    waiting.removeAll { $0 === waiter }
    waiter.end(.failure(CancellationError()))
  }

  fileprivate func note(_ change: FileChange) {
    guard waiting.isEmpty else {
      return waiting.removeFirst().end(.success(change))
    }
    if changes.contains(change) { return }
    if changes.count == Self.limit { changes = [FileChange(kind: .overflow, name: nil)] }
    // Once some are lost, the others say nothing more.
    if changes.first?.kind != .overflow { changes.append(change) }
  }

  /// - Parameter isThere: An error says that there is nothing any more, or not yet: that is what is watched.
  fileprivate func notePoll(isThere: Bool) {
    let isSame = isThere && wasThere
    wasThere = isThere
    note(FileChange(kind: isSame ? .changed : .renamed, name: nil))
  }

  fileprivate func fail(_ status: CInt) {
    failure = IOError(status, "watch", path.description)
    closeHandle()
    endWaiting()
  }

  private func endWaiting() {
    let waiting = waiting
    self.waiting = []
    for waiter in waiting { waiter.end(failure.map { .failure($0) } ?? .success(nil)) }
  }

  override func didClose() { endWaiting() }
}

private func eventDidHappen(
  _ handle: UnsafeMutablePointer<uv_fs_event_t>?, _ name: UnsafePointer<CChar>?, _ events: CInt,
  _ status: CInt
) {
  withHandleCore(handle!.pointee.data, as: WatchCore.self) { core in
    guard status == 0 else { return core.fail(status) }
    let isRenamed = events & CInt(UV_RENAME.rawValue) != 0
    core.note(
      FileChange(kind: isRenamed ? .renamed : .changed, name: name.map { FilePath(cString: $0) }))
  }
}

private func pollDidNotice(
  _ handle: UnsafeMutablePointer<uv_fs_poll_t>?, _ status: CInt,
  _ before: UnsafePointer<uv_stat_t>?,
  _ now: UnsafePointer<uv_stat_t>?
) {
  withHandleCore(handle!.pointee.data, as: WatchCore.self) { core in
    core.notePoll(isThere: status == 0)
  }
}
