internal import CUV
internal import Synchronization

/// A read or write of a file, at an offset or else at its cursor, where one goes on after the other.
///
/// It runs on a thread of the pool, where memory need not stay in place for longer than the call: arrays are read and written where they
/// are.
///
/// Loop thread only, but for `init` and what says otherwise.
// Unchecked: the variables are loop thread only, but for the outcome, which the pool's thread writes before libuv's callback. The
// mutex of libuv's queue is between them.
package class FileTransfer: AnyPoolRequest, @unchecked Sendable {
  final let file: FileCore
  private let position: Int?
  private let work = UnsafeMutablePointer<uv_work_t>.allocate(capacity: 1)
  @exclusivity(unchecked) private var turn: UInt64?
  @exclusivity(unchecked) private var hasTurn = false
  @exclusivity(unchecked) private var holdsFile = false
  @exclusivity(unchecked) private var isAwaited = false

  /// Where to begin, `nil` for the system's own position. Known before it runs.
  @exclusivity(unchecked) private(set) final var offset: Int?
  /// Whether nobody wants more of it. Any thread.
  final let isStopped = Atomic<Bool>(false)

  /// How many bytes were read or written.
  @exclusivity(unchecked) final var count = 0
  /// The libuv status, if it failed.
  @exclusivity(unchecked) final var failure: CInt?

  /// - Parameter position: `nil` for the cursor.
  init(_ operation: String, on file: FileCore, at position: Int?) {
    self.file = file
    self.position = position
    super.init(loop: file.loop, operation)
  }

  deinit { work.deallocate() }

  // MARK: For the subclass

  /// Does it. On a thread of the pool.
  func transfer() {}

  /// Whether somebody waits for the end.
  var isClaimed: Bool { false }

  /// Tells whoever waits: `nil` for what is in ``count``.
  func complete(_ error: (any Error)?) {}

  /// Takes what is there without asking the system. Returns whether there was something.
  func takeUnread() -> Bool { false }

  /// How far the cursor moves.
  var advance: Int { count }

  /// What the transfer failed with.
  func error(_ failure: CInt) -> any Error { IOError(failure, operation, about) }

  // MARK: The way

  final override var about: String? { file.path.description }

  final override var mayFinishDuringShutdown: Bool { true }

  final override var request: UnsafeMutablePointer<uv_req_t>? {
    UnsafeMutableRawPointer(work).assumingMemoryBound(to: uv_req_t.self)
  }

  final func startTransfer() {
    loop.preconditionIsCurrent()
    if let stopError { return complete(stopError) }
    guard file.isOpen else { return complete(FileClosed(operation, file.path)) }
    guard let position else {
      turn = file.takeTurn { self.turnHasCome() }
      return
    }
    guard position >= 0 else {
      let subject = "\(file.path) at offset \(position)"
      return complete(IOError(.invalidArgument, operation, subject))
    }
    beginTransfer(at: position)
  }

  private func turnHasCome() {
    turn = nil
    guard isClaimed else { return file.turnIsOver(advancedBy: 0) }
    if takeUnread() {
      file.turnIsOver(advancedBy: 0)
      return complete(nil)
    }
    hasTurn = true
    beginTransfer(at: file.isSeekable ? file.cursor : nil)
  }

  private func beginTransfer(at offset: Int?) {
    self.offset = offset
    file.hold()
    file.beginAwaiting()
    holdsFile = true
    isAwaited = true
    begin()
  }

  final override func submit(_ data: UnsafeMutableRawPointer) -> CInt {
    work.pointee.data = data
    return uv_queue_work(loop.uv, work, doTransfer, transferDidFinish)
  }

  final override func didEnd(_ status: Int?, _ error: (any Error)?) {
    // One that fails after it was told to stop has stopped.
    let error = error ?? failure.map { stopError ?? self.error($0) }
    if error == nil, !isClaimed { nobodyTook() }
    if hasTurn { file.turnIsOver(advancedBy: advance) }
    if holdsFile { file.letGo() }
    end(error)
  }

  private func end(_ error: (any Error)?) {
    complete(error)
    guard isAwaited else { return }
    isAwaited = false
    file.endAwaiting()
  }

  /// It has brought something when nobody waited any more.
  func nobodyTook() {}

  final override func stopWaiting(_ error: any Error) { end(error) }

  package final override func cancel(_ error: any Error) {
    isStopped.store(true, ordering: .relaxed)
    if let turn = turn.take() {
      complete(error)
      file.giveUpTurn(turn)
    } else {
      super.cancel(error)
    }
  }
}

private func doTransfer(_ request: UnsafeMutablePointer<uv_work_t>?) {
  let transfer = Unmanaged<AnyPoolRequest>.fromOpaque(request!.pointee.data)
  transfer._withUnsafeGuaranteedRef { unsafeDowncast($0, to: FileTransfer.self).transfer() }
}

private func transferDidFinish(_ request: UnsafeMutablePointer<uv_work_t>?, _ status: CInt) {
  poolRequestIsDone(request!.pointee.data, Int(status))
}

// MARK: What is transferred

/// A read into an array.
package final class BytesRead: FileTransfer, LoopRequest, @unchecked Sendable {
  // Unchecked: as FileTransfer.
  private let limit: Int
  @exclusivity(unchecked) private var bytes: [UInt8] = []
  @exclusivity(unchecked) private var completion: ((Result<[UInt8], any Error>) -> Void)?

  init(of file: FileCore, upTo limit: Int, at position: Int?) {
    self.limit = limit
    super.init("read", on: file, at: position)
  }

  package func start(_ completion: @escaping (Result<[UInt8], any Error>) -> Void) {
    self.completion = completion
    startTransfer()
  }

  override func transfer() {
    let input = FileInput(descriptor: file.descriptor, untilFull: file.isSeekable)
    switch input.bytes(upTo: limit, at: offset, isStopped) {
    case .success(let read):
      bytes = read
      count = read.count
    case .failure(let error): failure = error.status
    }
  }

  override func takeUnread() -> Bool {
    guard let unread = file.takeUnread(upTo: limit) else { return false }
    bytes = unread
    return true
  }

  override func nobodyTook() {
    // The next one reads them again.
    if file.isSeekable { count = 0 } else { file.putBack(bytes) }
  }

  override var isClaimed: Bool { completion != nil }

  override func complete(_ error: (any Error)?) {
    guard let completion = completion.take() else { return }
    if let error { return completion(.failure(error)) }
    var result: [UInt8] = []
    swap(&result, &bytes)
    completion(.success(result))
  }
}

/// A read or write that tells how many bytes it had.
package class CountedTransfer: FileTransfer, LoopRequest, @unchecked Sendable {
  // Unchecked: as FileTransfer.
  @exclusivity(unchecked) private var completion: ((Result<Int, any Error>) -> Void)?

  package final func start(_ completion: @escaping (Result<Int, any Error>) -> Void) {
    self.completion = completion
    startTransfer()
  }

  final override var isClaimed: Bool { completion != nil }

  final override func complete(_ error: (any Error)?) {
    guard let completion = completion.take() else { return }
    completion(error.map { .failure($0) } ?? .success(count))
  }
}

/// A read into memory of the caller.
// Unchecked: as FileTransfer; the memory is used on the pool's thread alone, while the caller waits.
final class MemoryRead: CountedTransfer, @unchecked Sendable {
  private let memory: UnsafeMutableRawBufferPointer
  // Besides `memory`, which is used then only if there are none.
  private let pieces: [UnsafeMutableRawBufferPointer]

  init(of file: FileCore, into memory: UnsafeMutableRawBufferPointer, at position: Int?) {
    self.memory = memory
    pieces = []
    super.init("read", on: file, at: position)
  }

  init(of file: FileCore, into pieces: [UnsafeMutableRawBufferPointer], at position: Int?) {
    memory = pieces.count == 1 ? pieces[0] : UnsafeMutableRawBufferPointer(start: nil, count: 0)
    self.pieces = pieces.count == 1 ? [] : pieces
    super.init("read", on: file, at: position)
  }

  override var usesCallersMemory: Bool { true }

  override func transfer() {
    let input = FileInput(descriptor: file.descriptor, untilFull: file.isSeekable)
    let result =
      pieces.isEmpty
      ? input.read(into: memory, at: offset, isStopped)
      : input.read(into: pieces, at: offset, isStopped)
    switch result {
    case .success(let read): count = read
    case .failure(let error): failure = error.status
    }
  }

  override func takeUnread() -> Bool {
    guard let room = pieces.first(where: { !$0.isEmpty }) ?? (memory.isEmpty ? nil : memory),
      let taken = file.takeUnread(into: room)
    else { return false }
    count = taken
    return true
  }
}

/// A write. The outcome of one that failed half-way tells how far it came.
package class Write: CountedTransfer, @unchecked Sendable {
  // Unchecked: as FileTransfer.
  init(on file: FileCore, at position: Int?) { super.init("write", on: file, at: position) }

  final override func transfer() {
    var output = FileOutput(descriptor: file.descriptor, offset: offset)
    write(to: &output)
    count = output.written
    failure = output.failure
  }

  /// On a thread of the pool.
  func write(to output: inout FileOutput) {}

  final override func error(_ failure: CInt) -> any Error {
    IOError(IOError.Code(rawValue: failure), operation, about, bytesWritten: count)
  }

  // Appending leaves the cursor to readers.
  final override var advance: Int { file.isAppending ? 0 : count }
}

/// A write of arrays.
final class BytesWrite: Write, @unchecked Sendable {
  // Unchecked: as FileTransfer. The bytes go with the request, or before it when it has run.
  @exclusivity(unchecked) private var pieces: [[UInt8]]

  init(_ pieces: [[UInt8]], to file: FileCore, at position: Int?) {
    self.pieces = pieces
    super.init(on: file, at: position)
  }

  override func write(to output: inout FileOutput) {
    output.write(pieces, isStopped)
    pieces = []
  }
}

/// A write of memory of the caller.
// Unchecked: as FileTransfer; the memory is used on the pool's thread alone, while the caller waits.
final class MemoryWrite: Write, @unchecked Sendable {
  private let pieces: [UnsafeRawBufferPointer]

  init(_ pieces: [UnsafeRawBufferPointer], to file: FileCore, at position: Int?) {
    self.pieces = pieces
    super.init(on: file, at: position)
  }

  override var usesCallersMemory: Bool { true }

  override func write(to output: inout FileOutput) { output.write(pieces, isStopped) }
}
