internal import CUV
internal import Synchronization

/// What can still be done with the sending side.
enum Sending {
  case open
  /// FIN follows what is queued; then these are told.
  case shuttingDown([@Sendable (Result<Void, any Error>) -> Void])
  case finished
  /// Part of a write is missing or the connection failed: nothing may follow.
  case broken(any Error)
}

extension StreamCore {
  /// Tries to hand all of `bytes` to the kernel here and now.
  ///
  /// - Returns: How much was taken, which is everything or less, or an error that has broken the stream.
  func writeNow(_ bytes: UnsafeRawBufferPointer) -> Result<Int, any Error> {
    if let error = writeRefusal { return .failure(error) }
    guard outbound.isEmpty, writeInFlight == nil else { return .success(0) }
    return tryWrite(bytes).mapError { error in
      breakSending(error)
      return error
    }
  }

  /// Queues what is left of `bytes` after `sent`. To be called after `writeNow` took less than all.
  func enqueue(_ bytes: [UInt8], sent: Int, ticket: UInt64, _ completion: WriteCompletion) {
    if isFlushed { timeouts?.writeDidAdvance(on: self) }
    outbound.append(.init(ticket: ticket, bytes: bytes, sent: sent, completion: completion))
    pump()
  }

  /// Writes `bytes`, for an operation.
  package func write(_ bytes: [UInt8], ticket: UInt64, for consumer: any WriteConsumer) {
    loop.preconditionIsCurrent()
    switch bytes.withUnsafeBytes(writeNow) {
    case .success(let sent) where sent == bytes.count && isFlushed:
      tellInline(consumer, .success(()))
    case .success(let sent): enqueue(bytes, sent: sent, ticket: ticket, .operation(consumer))
    case .failure(let error): tellInline(consumer, .failure(error))
    }
  }

  /// Tells a write that is done here and now. The completions of earlier ones come first, also when one of them makes this write.
  private func tellInline(_ consumer: any WriteConsumer, _ result: Result<Void, any Error>) {
    let isFirst = !isTellingWrites && writesToTell == 0
    mayCompleteInline() && isFirst ? tell(consumer, result) : tellNextTurn(consumer, result)
  }

  private func tellNextTurn(_ consumer: any WriteConsumer, _ result: Result<Void, any Error>) {
    writesToTell += 1
    loop.nextTurn { [self] in
      writesToTell -= 1
      consumer.writeDidFinish(result)
    }
  }

  private func tell(_ consumer: any WriteConsumer, _ result: Result<Void, any Error>) {
    guard loop.beginCompletion() else { return loop.nextTurn { consumer.writeDidFinish(result) } }
    consumer.writeDidFinish(result)
    loop.endCompletion()
  }

  /// Ends the write with that ticket with `error`, if it is not done. When a part of it has been sent already, nothing can follow
  /// that part: the stream can only be closed then, and closing resets it, so that the peer does not take the part for all. What
  /// libuv has to the end cannot be taken back and is sent, but nobody waits for it any more.
  package func cancelWrite(_ ticket: UInt64, _ error: any Error = CancellationError()) {
    if let entry = writeInFlight?.forget(ticket) { return finish([entry], .failure(error)) }
    guard let entry = outbound.remove(ticket) else { return }
    noteQueuedBytes()
    if entry.sent > 0 { breakSending(StreamClosed("write")) }
    finish([entry], .failure(error))
    sendFinIfDone()
  }

  private var writeRefusal: (any Error)? {
    guard isOpen, life == .open else { return closedError("write") }
    switch sending {
    case .open: return nil
    case .broken(let error): return error
    case .shuttingDown, .finished: return StreamClosed("write")
    }
  }

  /// Zero when the kernel has no room.
  private func tryWrite(_ bytes: UnsafeRawBufferPointer) -> Result<Int, any Error> {
    guard let base = bytes.baseAddress, !bytes.isEmpty else { return .success(0) }
    var buffer = uv_buf_t(
      base: UnsafeMutableRawPointer(mutating: base).assumingMemoryBound(to: CChar.self),
      len: bytes.count)
    let status = uv_try_write(stream, &buffer, 1)
    if status >= 0 {
      noteActivity()
      timeouts?.writeDidAdvance(on: self)
      return .success(Int(status))
    }
    return status == UV_EAGAIN.rawValue
      ? .success(0) : .failure(IOError(status, "write", subject))
  }

  // MARK: The queue

  /// Moves queued bytes on: large writes straight from their memory while the kernel takes them, then one block of what is
  /// next, small writes merged, which libuv sends when there is room.
  private func pump() {
    var done: [OutboundQueue.Entry] = []
    defer {
      noteQueuedBytes()
      finish(done, .success(()))
      sendFinIfDone()
    }
    guard writeInFlight == nil, isOpen else { return }
    if let error = sendDirectly(&done) {
      // What was sent before the failure comes first.
      finish(done, .success(()))
      done = []
      return breakSending(error)
    }
    guard !outbound.isEmpty else { return }
    let write = BlockWrite(stream: self)
    writeInFlight = write
    if let error = write.start(&outbound) {
      writeInFlight = nil
      finish(write.entries, .failure(error))
      breakSending(error)
    }
  }

  /// - Returns: An error of the connection, if there was one.
  private func sendDirectly(_ done: inout [OutboundQueue.Entry]) -> (any Error)? {
    var budget = 1_048_576
    while let entry = outbound.first, entry.remaining == 0 || entry.remaining >= BlockWrite.size,
      budget > 0
    {
      let attempt = entry.bytes.withUnsafeBytes { bytes in
        tryWrite(
          UnsafeRawBufferPointer(
            rebasing: bytes[entry.sent..<min(bytes.count, entry.sent + budget)]))
      }
      switch attempt {
      case .failure(let error): return error
      case .success(let count):
        outbound.advanceFirst(by: count)
        budget -= count
        if count == entry.remaining {
          done.append(outbound.removeFirst())
        } else if count == 0 {
          return nil
        }
      }
    }
    return nil
  }

  fileprivate func blockWriteDidFinish(_ write: BlockWrite, _ status: CInt) {
    writeInFlight = nil
    if status == 0 {
      noteActivity()
      timeouts?.writeDidAdvance(on: self)
      finish(write.entries, .success(()))
      pump()
    } else {
      let error = endReason ?? IOError(status, "write", subject)
      finish(write.entries, .failure(error))
      breakSending(error)
    }
  }

  /// Ends every queued write with `error`; later ones get it too.
  func breakSending(_ error: any Error) {
    let completions: [@Sendable (Result<Void, any Error>) -> Void]
    if case .shuttingDown(let waiting) = sending { completions = waiting } else { completions = [] }
    if case .broken = sending {} else { sending = .broken(error) }
    finish(outbound.removeAll(), .failure(error))
    noteQueuedBytes()
    for completion in completions { loop.complete { completion(.failure(error)) } }
    sendingEndedWhileClosing()
  }

  private func finish(_ entries: [OutboundQueue.Entry], _ result: Result<Void, any Error>) {
    if entries.isEmpty { return }
    let isNested = isTellingWrites
    let othersAreFirst = writesToTell > 0
    isTellingWrites = true
    for entry in entries {
      switch entry.completion {
      case .continuation(let continuation): continuation.resume(with: result)
      case .operation(let consumer):
        if othersAreFirst { tellNextTurn(consumer, result) } else { tell(consumer, result) }
      }
    }
    isTellingWrites = isNested
  }

  /// Ends all writes with `error`, in order, also those that libuv still has the bytes of.
  func failWrites(_ error: any Error) {
    finish(writeInFlight?.takeEntries() ?? [], .failure(error))
    breakSending(error)
  }

  private func noteQueuedBytes() {
    queuedBytes.store(outbound.byteCount + (writeInFlight?.count ?? 0), ordering: .relaxed)
  }

  // MARK: The end

  /// Sends FIN after what is queued. Again, it waits for the same end.
  package func shutdownSending(_ completion: @escaping @Sendable (Result<Void, any Error>) -> Void)
  {
    loop.preconditionIsCurrent()
    guard isOpen, life == .open || life == .flushing else {
      return completion(.failure(closedError("shutdown")))
    }
    switch sending {
    case .broken(let error): return completion(.failure(error))
    case .finished: return completion(.success(()))
    case .shuttingDown(let waiting): sending = .shuttingDown(waiting + [completion])
    case .open:
      sending = .shuttingDown([completion])
      sendFinIfDone()
    }
  }

  private func sendFinIfDone() {
    guard case .shuttingDown = sending, finRequest == nil, isOpen, outbound.isEmpty,
      writeInFlight == nil
    else { return }
    let request = FinRequest(stream: self)
    finRequest = request
    if let error = request.start() {
      finRequest = nil
      breakSending(error)
    }
  }

  fileprivate func finDidFinish(_ status: CInt) {
    guard case .shuttingDown(let completions) = sending else { return }
    guard status == 0 else {
      return breakSending(endReason ?? IOError(status, "shutdown", subject))
    }
    sending = .finished
    for completion in completions { loop.complete { completion(.success(())) } }
    sendingEndedWhileClosing()
  }
}

/// One block on its way through libuv, with the memory for it.
///
/// libuv holds a reference from a successful `start` until `blockWriteDidFinish`. Loop thread only.
final class BlockWrite {
  static let size = 65_536

  private(set) var count = 0
  /// The writes whose last byte is in this block.
  private(set) var entries: [OutboundQueue.Entry] = []
  private let stream: StreamCore
  private let request = UnsafeMutablePointer<uv_write_t>.allocate(capacity: 1)
  private var block: UnsafeMutableRawBufferPointer

  init(stream: StreamCore) {
    self.stream = stream
    block = .allocate(byteCount: min(BlockWrite.size, stream.outbound.byteCount), alignment: 16)
  }

  deinit {
    request.deallocate()
    block.deallocate()
  }

  func start(_ queue: inout OutboundQueue) -> (any Error)? {
    (count, entries) = queue.fill(block)
    var buffer = uv_buf_t(base: block.baseAddress?.assumingMemoryBound(to: CChar.self), len: count)
    // Released in blockWriteDidFinish.
    request.pointee.data = Unmanaged.passRetained(self).toOpaque()
    let status = uv_write(request, stream.stream, &buffer, 1, blockWriteDidFinish)
    guard status != 0 else { return nil }
    Unmanaged.passUnretained(self).release()  // Refused: the callback will never run.
    return IOError(status, "write", stream.subject)
  }

  /// Takes out the write with that ticket, but not its bytes.
  fileprivate func forget(_ ticket: UInt64) -> OutboundQueue.Entry? {
    entries.firstIndex { $0.ticket == ticket }.map { entries.remove(at: $0) }
  }

  /// Takes out all writes, but not their bytes.
  fileprivate func takeEntries() -> [OutboundQueue.Entry] {
    defer { entries = [] }
    return entries
  }

  fileprivate func finish(_ status: CInt) { stream.blockWriteDidFinish(self, status) }
}

private func blockWriteDidFinish(_ request: UnsafeMutablePointer<uv_write_t>?, _ status: CInt) {
  Unmanaged<BlockWrite>.fromOpaque(request!.pointee.data).takeRetainedValue().finish(status)
}

/// The request that sends FIN. libuv holds a reference from a successful `start` until `finDidFinish`. Loop thread only.
final class FinRequest {
  private let stream: StreamCore
  private let request = UnsafeMutablePointer<uv_shutdown_t>.allocate(capacity: 1)

  init(stream: StreamCore) { self.stream = stream }

  deinit { request.deallocate() }

  func start() -> (any Error)? {
    request.pointee.data = Unmanaged.passRetained(self).toOpaque()  // Released in finDidFinish.
    let status = uv_shutdown(request, stream.stream, finDidFinish)
    guard status != 0 else { return nil }
    Unmanaged.passUnretained(self).release()  // Refused: the callback will never run.
    return IOError(status, "shutdown", stream.subject)
  }

  fileprivate func finish(_ status: CInt) {
    stream.finRequest = nil
    stream.finDidFinish(status)
  }
}

private func finDidFinish(_ request: UnsafeMutablePointer<uv_shutdown_t>?, _ status: CInt) {
  Unmanaged<FinRequest>.fromOpaque(request!.pointee.data).takeRetainedValue().finish(status)
}
