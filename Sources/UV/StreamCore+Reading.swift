internal import CUV
internal import Glibc

/// What libuv is doing about input.
enum Reading {
  case notStarted
  case active
  /// Stopped because enough is waiting to be read.
  case paused
  case ended(End)

  enum End {
    case endOfFile
    case failed(any Error)
  }
}

/// Gets the result of one read, on the loop thread. A class, so that a read needs no closure.
package protocol ReadConsumer: AnyObject, Sendable {
  func readDidFinish(_ result: consuming Result<[UInt8]?, any Error>)
}

/// Whoever waits for bytes. There is one at a time.
// Unchecked: the memory of the reader is used on the loop thread alone.
struct Reader: @unchecked Sendable {
  /// Nothing in here is counted, so that a reader is copied like a number.
  enum Target {
    /// For the stream's `readConsumer`.
    case operation(limit: Int)
    case array(limit: Int, LoopContinuation<[UInt8]?>)
    case memory(UnsafeMutableRawBufferPointer, LoopContinuation<Int?>)
    /// Bytes are collected until they are what it wants.
    case portion(Portion, LoopContinuation<[UInt8]?>)
  }

  /// The ticket of those that ``TCPStream/attended(_:)`` looks after.
  static let attended: UInt64 = 0

  let ticket: UInt64
  let target: Target
}

extension StreamCore {
  /// What can be said without waiting: bytes, the end, or an error; `nil` if the read must wait.
  func readNow(upTo limit: Int) -> Result<[UInt8]?, any Error>? {
    readNow { [self] in inbound.take(upTo: limit) }
  }

  func readNow(into memory: UnsafeMutableRawBufferPointer) -> Result<Int?, any Error>? {
    readNow { [self] in inbound.take(into: memory) }
  }

  /// A portion is complete, or its end is there, or it must wait.
  func readNow(_ portion: Portion) -> Result<[UInt8]?, any Error>? {
    if let refusal = readRefusal { return .failure(refusal) }
    if discardsInput { return .success(nil) }
    guard inbound.isEmpty || mayCompleteInline() else { return nil }
    return outcome(of: portion)
  }

  private func readNow<Value>(_ take: () -> Value) -> Result<Value?, any Error>? {
    if let refusal = readRefusal { return .failure(refusal) }
    if discardsInput { return .success(nil) }
    if !inbound.isEmpty {
      guard mayCompleteInline() else { return nil }
      let value = take()
      resumeReadingIfDrained()
      return .success(value)
    }
    guard case .ended(let end) = reading else { return nil }
    switch end {
    case .endOfFile: return .success(nil)
    case .failed(let error): return .failure(error)
    }
  }

  private var readRefusal: (any Error)? {
    guard life == .open, isOpen else { return closedError("read") }
    return reader == nil ? nil : ConcurrentRead()
  }

  /// What a read of `portion` gets, unless it must wait for more.
  private func outcome(of portion: Portion) -> Result<[UInt8]?, any Error>? {
    if let count = inbound.count(of: portion) {
      let bytes = inbound.take(upTo: count)
      resumeReadingIfDrained()
      return .success(bytes)
    }
    if case .through(_, let limit) = portion, inbound.count > limit {
      return .failure(LineTooLong(subject: subject ?? "stream", limit: limit))
    }
    guard case .ended(let end) = reading else { return nil }
    switch (end, portion) {
    case (.failed(let error), _): return .failure(error)
    case (.endOfFile, _) where inbound.isEmpty: return .success(nil)
    case (.endOfFile, .through): return .success(inbound.take(upTo: inbound.count))
    case (.endOfFile, .exactly(let count)):
      return .failure(IncompleteRead(expected: count, available: inbound.count))
    }
  }

  /// Reads up to `limit` bytes, for an operation.
  package func read(upTo limit: Int, ticket: UInt64, for consumer: any ReadConsumer) {
    if let result = readNow(upTo: limit) {
      // Bytes are counted already.
      if case .success(_?) = result { return tell(consumer, result) }
      return mayCompleteInline() ? tell(consumer, result) : tellNextTurn(consumer, result)
    }
    readConsumer = consumer
    wait(Reader(ticket: ticket, target: .operation(limit: limit)))
  }

  private func tell(_ consumer: any ReadConsumer, _ result: consuming Result<[UInt8]?, any Error>) {
    guard loop.beginCompletion() else { return tellNextTurn(consumer, result) }
    consumer.readDidFinish(result)
    loop.endCompletion()
  }

  private func tellConsumer(_ result: consuming Result<[UInt8]?, any Error>) {
    if let consumer = readConsumer.take() { tell(consumer, result) }
  }

  private func tellNextTurn(_ consumer: any ReadConsumer, _ result: Result<[UInt8]?, any Error>) {
    loop.nextTurn { consumer.readDidFinish(result) }
  }

  /// Whether there is surely nothing to be read yet.
  var readMustWait: Bool {
    guard life == .open, inbound.isEmpty, reader == nil, !discardsInput, isOpen else {
      return false
    }
    if case .active = reading { return true }
    return false
  }

  /// Makes a reader wait that somebody else cancels. To be called after `readMustWait`.
  func waitAttended(_ target: Reader.Target) {
    let reader = Reader(ticket: Reader.attended, target: target)
    // The task may have changed its thread in between.
    guard loop.isCurrent else { return beginLater(reader) }
    guard readMustWait else { return begin(reader) }
    self.reader = reader
    readerDidBegin()
  }

  private func readerDidBegin() {
    waitingSince = uv_now(loop.uv)
    timeouts?.readDidBegin(on: self)
  }

  private func beginLater(_ reader: Reader) {
    let task = currentTask()
    let isAccepted = loop.perform { [self] in
      attendedTask == task ? begin(reader) : fail(reader, CancellationError())
    }
    if !isAccepted { fail(reader, EventLoopClosed()) }
  }

  /// Ends `reader` with what there is, or makes it wait.
  func begin(_ reader: Reader) {
    switch reader.target {
    case .operation: wait(reader)
    case .array(let limit, let continuation):
      if let result = readNow(upTo: limit) {
        continuation.resume(with: result)
      } else {
        wait(reader)
      }
    case .memory(let memory, let continuation):
      if let result = readNow(into: memory) {
        continuation.resume(with: result)
      } else {
        wait(reader)
      }
    case .portion(let portion, let continuation):
      if let result = readNow(portion) { continuation.resume(with: result) } else { wait(reader) }
    }
  }

  /// Makes `reader` wait. To be called after `readNow` had nothing to say.
  func wait(_ reader: Reader) {
    loop.preconditionIsCurrent()
    self.reader = reader
    readerDidBegin()
    guard inbound.isEmpty else { return loop.nextTurn { [self] in serveReader() } }
    startReading()
  }

  /// Ends the read with that ticket with `error`, if it still waits. No byte is lost: what arrives goes to the next one.
  package func cancelRead(_ ticket: UInt64, _ error: any Error = CancellationError()) {
    guard let reader, reader.ticket == ticket else { return }
    self.reader = nil
    fail(reader, error)
  }

  private func serveReader() {
    guard let reader, !inbound.isEmpty else { return }
    self.reader = nil
    switch reader.target {
    case .operation(let limit):
      let bytes = inbound.take(upTo: limit)
      resumeReadingIfDrained()
      tellConsumer(.success(bytes))
    case .array(let limit, let continuation):
      continuation.resume(returning: inbound.take(upTo: limit))
      resumeReadingIfDrained()
    case .memory(let memory, let continuation):
      continuation.resume(returning: inbound.take(into: memory))
      resumeReadingIfDrained()
    case .portion(let portion, let continuation):
      if let outcome = outcome(of: portion) { return continuation.resume(with: outcome) }
      self.reader = reader
      startReading()
    }
  }

  func fail(_ reader: Reader, _ error: any Error) {
    switch reader.target {
    case .operation: tellConsumer(.failure(error))
    case .array(_, let continuation): continuation.resume(throwing: error)
    case .memory(_, let continuation): continuation.resume(throwing: error)
    case .portion(_, let continuation): continuation.resume(throwing: error)
    }
  }

  private func finish(_ reader: Reader, with end: Reading.End) {
    switch (end, reader.target) {
    case (.failed(let error), _): fail(reader, error)
    case (.endOfFile, .operation): tellConsumer(.success(nil))
    case (.endOfFile, .array(_, let continuation)): continuation.resume(returning: nil)
    case (.endOfFile, .memory(_, let continuation)): continuation.resume(returning: nil)
    case (.endOfFile, .portion(_, let continuation)): continuation.resume(returning: nil)
    }
  }

  // MARK: libuv

  func startReading() {
    switch reading {
    case .active, .ended: return
    case .notStarted, .paused: break
    }
    let status = uv_read_start(stream, giveMemory, bytesDidArrive)
    if status == 0 { reading = .active } else { inputEnded(status) }
  }

  private func resumeReadingIfDrained() {
    if case .paused = reading, inbound.count < StreamCore.highWaterMark / 2 { startReading() }
  }

  /// Where libuv is to put the next bytes: straight into the memory of a waiting reader, or else the loop's scratch memory.
  /// Nothing of the user's runs in here.
  fileprivate var memoryForRead: UnsafeMutableRawBufferPointer {
    if life == .open, !discardsInput, inbound.isEmpty, let reader,
      case .memory(let memory, _) = reader.target
    {
      return memory
    }
    return loop.scratch
  }

  fileprivate func received(_ count: Int, in memory: UnsafeRawPointer?) {
    if count == UV_EOF.rawValue, memory == nil { return hungUp() }
    if count < 0 { return inputEnded(CInt(count)) }
    // Zero is libuv's "not now".
    guard count > 0, let memory else { return }
    noteActivity()
    guard life == .open, !discardsInput else { return lingerGoesOn() }
    let arrived = UnsafeRawBufferPointer(start: memory, count: count)
    if case .portion(let portion, _) = reader?.target {
      inbound.append(arrived)
      hand(count) { serveReader() }
      return pauseIfFull(reader == nil ? 0 : portion.limit)
    }
    // A reader that was put off to the next turn has bytes waiting that come before these.
    if inbound.isEmpty, let reader = reader.take() {
      hand(count) { deliver(arrived, to: reader) }
    } else {
      inbound.append(arrived)
      pauseIfFull()
    }
  }

  /// Calls `body`, which hands over `count` bytes, and lets the task that gets them go on at once, until the stream has had its share of the
  /// turn. After that nobody waits for bytes, and the high-water mark ends what libuv would go on to read.
  private func hand(_ count: Int, _ body: () -> Void) {
    if receivingTurn != loop.turn { (receivingTurn, receivedInTurn) = (loop.turn, 0) }
    receivedInTurn += count
    if receivedInTurn <= 2 * StreamCore.highWaterMark {
      loop.runTaskResumed(by: body)
    } else {
      body()
    }
  }

  /// libuv takes a hang-up after a short read for the end of the stream, and tells so without memory. It may have been a reset, which
  /// must not pass for the end: only the system knows, so it is asked for the rest.
  private func hungUp() {
    var descriptor: CInt = -1
    uv_fileno(handle, &descriptor)
    while isOpen {
      let memory = memoryForRead
      let count = recv(descriptor, memory.baseAddress, memory.count, 0)
      if count > 0 {
        received(count, in: memory.baseAddress)
      } else if count == 0 || errno == EAGAIN {
        return inputEnded(UV_EOF.rawValue)
      } else if errno != EINTR {
        return inputEnded(uv_translate_sys_error(errno))
      }
    }
  }

  private func deliver(_ arrived: UnsafeRawBufferPointer, to reader: Reader) {
    switch reader.target {
    case .memory(_, let continuation):
      continuation.resume(returning: arrived.count)
    case .array(let limit, let continuation):
      continuation.resume(returning: split(arrived, at: limit))
    case .operation(let limit):
      tellConsumer(.success(split(arrived, at: limit)))
    case .portion:
      inbound.append(arrived)
    }
  }

  private func split(_ arrived: UnsafeRawBufferPointer, at limit: Int) -> [UInt8] {
    if arrived.count <= limit { return [UInt8](arrived) }
    inbound.append(UnsafeRawBufferPointer(rebasing: arrived[limit...]))
    return [UInt8](UnsafeRawBufferPointer(rebasing: arrived[..<limit]))
  }

  /// - Parameter wanted: How much more than usual somebody waits for.
  private func pauseIfFull(_ wanted: Int = 0) {
    guard inbound.count >= max(StreamCore.highWaterMark, wanted), case .active = reading
    else { return }
    uv_read_stop(stream)
    reading = .paused
  }

  private func inputEnded(_ status: CInt) {
    uv_read_stop(stream)
    let end: Reading.End =
      status == UV_EOF.rawValue ? .endOfFile : .failed(IOError(status, "read", subject))
    reading = .ended(end)
    if let reader, inbound.isEmpty {
      self.reader = nil
      finish(reader, with: end)
    } else if case .portion = reader?.target {
      serveReader()
    }
    inputEndedWhileClosing()
  }

  // MARK: Half-close

  /// Ends the receiving side for a reader who waits, when nothing has come or gone for so long.
  func endInput(ifSilentFor time: Duration) {
    guard let reader, isOpen else { return }
    let since = max(lastActivity, waitingSince)
    guard uv_now(loop.uv) &- since >= time.clampedNanoseconds / 1_000_000 else { return }
    switch reader.target {
    case .portion: break  // What is here is not all of it.
    // What is here is for the reader, who was put off to the next turn.
    case .array, .memory, .operation: if !inbound.isEmpty { return }
    }
    if !systemHasBytes { shutdownReceiving() }
  }

  /// Whether there is something to be read that libuv has not come to yet: the loop may have been busy for long.
  private var systemHasBytes: Bool {
    var descriptor: CInt = -1
    var byte: UInt8 = 0
    return uv_fileno(handle, &descriptor) == 0
      && recv(descriptor, &byte, 1, CInt(MSG_PEEK) | CInt(MSG_DONTWAIT)) > 0
  }

  /// Ends the receiving side: a waiting read gets the end of the stream, and so does every later one. What the peer still
  /// sends is thrown away.
  package func shutdownReceiving() {
    guard isOpen, life == .open, !discardsInput else { return }
    discardsInput = true
    inbound.removeAll()
    startReading()
    if let reader {
      self.reader = nil
      finish(reader, with: .endOfFile)
    }
  }
}

private func giveMemory(
  _ handle: UnsafeMutablePointer<uv_handle_t>?, _ suggestion: Int,
  _ buffer: UnsafeMutablePointer<uv_buf_t>?
) {
  let memory = withHandleCore(handle!.pointee.data, as: StreamCore.self) { $0.memoryForRead }
  buffer!.pointee = uv_buf_t(
    base: memory.baseAddress?.assumingMemoryBound(to: CChar.self), len: memory.count)
}

private func bytesDidArrive(
  _ stream: UnsafeMutablePointer<uv_stream_t>?, _ count: Int, _ buffer: UnsafePointer<uv_buf_t>?
) {
  withHandleCore(stream!.pointee.data, as: StreamCore.self) {
    $0.received(count, in: UnsafeRawPointer(buffer?.pointee.base))
  }
}
