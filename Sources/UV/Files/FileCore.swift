internal import CUV
internal import Glibc
internal import Synchronization

/// The descriptor of an open file and what goes on with it.
///
/// A descriptor that is closed while a thread of the pool works with it could be that of another file by then, so closing waits for all
/// requests, those included that nobody waits for any more.
///
/// Loop thread only, but for `init` and what says otherwise.
// Unchecked: the variables are loop thread only, `number` is atomic.
package final class FileCore: @unchecked Sendable {
  private enum Phase {
    case open
    case closing([(Result<Void, any Error>) -> Void])
    case closed(Result<Void, any Error>)
  }

  let loop: LoopCore
  let path: FilePath
  let isAppending: Bool
  /// Whether it has a position that can be chosen: pipes and terminals do not.
  let isSeekable: Bool

  // -1 once it was given to `close`.
  private let number: Atomic<CInt>
  private var phase = Phase.open
  // Requests that libuv has, and those of them that somebody waits for.
  private var inFlight = 0
  private var awaited = 0
  private var turns: [UInt64: () -> Void] = [:]
  private var turnsGiven: UInt64 = 0
  private var turnsPassed: UInt64 = 0
  private var isTurnTaken = false
  private var isPassingTurns = false
  /// Where the next read or write without an offset begins.
  private(set) var cursor = 0
  /// Bytes that a read brought from a file without positions when nobody waited for them any more.
  private var unread = InboundBytes()

  init(loop: LoopCore, descriptor: CInt, path: FilePath, isAppending: Bool) {
    self.loop = loop
    self.path = path
    self.isAppending = isAppending
    number = Atomic(descriptor)
    // Asks for a number that the kernel has at hand.
    isSeekable = lseek(descriptor, 0, SEEK_CUR) >= 0
  }

  deinit { closeNow() }

  /// To be used while a request keeps it open.
  var descriptor: CInt { number.load(ordering: .relaxed) }

  var subject: FileSubject { FileSubject(path: path) }

  var isOpen: Bool {
    if case .open = phase { true } else { false }
  }

  // MARK: Requests

  /// Starts `request`, which uses the descriptor, unless the file is closed.
  ///
  /// - Parameter wasWaiting: Whether it was asked for earlier, so that a close waits for it.
  func start<Value>(
    _ request: PoolRequest<Value>, wasWaiting: Bool = false,
    _ completion: @escaping PoolRequest<Value>.Completion
  ) {
    loop.preconditionIsCurrent()
    guard isOpen || wasWaiting else {
      return completion(.failure(FileClosed(request.operation, path)))
    }
    hold()
    beginAwaiting()
    let before = request.whenDone
    request.whenDone = { result in
      before?(result)
      self.letGo()
    }
    request.start { result in
      completion(result)
      self.endAwaiting()
    }
  }

  /// Somebody waits for a request, so that a close must, too.
  func beginAwaiting() { awaited += 1 }

  func endAwaiting() {
    awaited -= 1
    closeIfIdle()
  }

  /// Keeps the descriptor from being closed until ``letGo()``.
  func hold() { inFlight += 1 }

  func letGo() {
    inFlight -= 1
    closeIfIdle()
  }

  // MARK: Turns

  /// Calls `begin` when those before it are done with the cursor. It ends by ``turnIsOver(advancedBy:)``.
  ///
  /// - Returns: What takes that back by ``giveUpTurn(_:)``; `nil` when the turn has come already.
  func takeTurn(_ begin: @escaping () -> Void) -> UInt64? {
    guard isTurnTaken else {
      isTurnTaken = true
      begin()
      return nil
    }
    defer { turnsGiven += 1 }
    turns[turnsGiven] = begin
    return turnsGiven
  }

  func giveUpTurn(_ turn: UInt64) {
    turns[turn] = nil
    closeIfIdle()
  }

  func turnIsOver(advancedBy count: Int) {
    cursor &+= count
    isTurnTaken = false
    passTurns()
    closeIfIdle()
  }

  /// Not by recursion: where turns end as soon as they begin there may be any number of them.
  private func passTurns() {
    if isPassingTurns { return }
    isPassingTurns = true
    defer { isPassingTurns = false }
    while !isTurnTaken, turnsPassed < turnsGiven {
      let begin = turns.removeValue(forKey: turnsPassed)
      turnsPassed += 1
      guard let begin else { continue }
      isTurnTaken = true
      begin()
    }
  }

  func takeUnread(upTo limit: Int) -> [UInt8]? {
    unread.isEmpty ? nil : unread.take(upTo: limit)
  }

  func takeUnread(into memory: UnsafeMutableRawBufferPointer) -> Int? {
    unread.isEmpty ? nil : unread.take(into: memory)
  }

  func putBack(_ bytes: [UInt8]) { bytes.withUnsafeBytes { unread.append($0) } }

  // MARK: Closing

  /// Closes the file when all that was asked for before has ended, and tells how that went. Requests that run although they were cancelled
  /// keep the descriptor, but not those who wait for this.
  func close(_ completion: @escaping (Result<Void, any Error>) -> Void) {
    switch phase {
    case .open:
      phase = .closing([completion])
      closeIfIdle()
    case .closing(let waiting):
      phase = .closing(waiting + [completion])
      closeIfIdle()
    case .closed(let result):
      completion(result)
    }
  }

  private func closeIfIdle() {
    guard case .closing(let waiting) = phase, descriptor >= 0 else { return }
    guard inFlight == 0 && !isTurnTaken else {
      guard awaited == 0, turns.isEmpty, !waiting.isEmpty else { return }
      phase = .closing([])
      for completion in waiting { completion(.success(())) }
      return
    }
    let descriptor = number.exchange(-1, ordering: .relaxed)
    let request = FileRequest(loop: loop, "close", subject, mustFinish: true) {
      uv_fs_close($0, $1, descriptor, fileRequestIsDone)
    }
    guard loop.takesRequests else {
      // The loop ends and starts nothing any more.
      return didClose(closing(descriptor))
    }
    request.start { self.didClose($0) }
  }

  private func didClose(_ result: Result<Void, any Error>) {
    guard case .closing(let waiting) = phase else { return }
    phase = .closed(result)
    if case .failure(let error) = result, waiting.isEmpty { Report.send("\(error)") }
    for completion in waiting { completion(result) }
  }

  private func closing(_ descriptor: CInt) -> Result<Void, any Error> {
    let status = CUV.close(descriptor)
    return status == 0 || errno == EINTR
      ? .success(()) : .failure(IOError(errno: errno, "close", path.description))
  }

  /// Closes the file on this thread, if nobody has. Any thread, when the loop has closed or nobody has the core.
  @discardableResult
  func closeNow() -> Result<Void, any Error> {
    let descriptor = number.exchange(-1, ordering: .relaxed)
    return descriptor < 0 ? .success(()) : closing(descriptor)
  }

  /// Closes a file that was dropped while open, and says so in debug builds.
  func wasDropped() {
    guard isOpen else { return }
    #if DEBUG
      Report.send("\(path): a file was dropped while open; close it, or use FileSystem.withFile")
    #endif
    close { _ in }
  }
}
