internal import CUV

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

  /// Whether it waits for more than what is there.
  var collects: Bool {
    if case .portion = target { true } else { false }
  }
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
    guard inbound.isEmpty || mayCompleteInline() else { return nil }
    return outcome(of: portion)
  }

  private func readNow<Value>(_ take: () -> Value) -> Result<Value?, any Error>? {
    if let refusal = readRefusal { return .failure(refusal) }
    if discardsInput, inbound.isEmpty { return .success(nil) }
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
  func outcome(of portion: Portion) -> Result<[UInt8]?, any Error>? {
    if let count = inbound.count(of: portion) {
      let bytes = inbound.take(upTo: count)
      resumeReadingIfDrained()
      return .success(bytes)
    }
    if case .through(_, let limit) = portion, inbound.count > limit {
      return .failure(LineTooLong(subject: subject ?? "stream", limit: limit))
    }
    let end: Reading.End
    if discardsInput {
      // This side has ended the input, and a part of a line must not pass for a line.
      if case .through = portion { return .success(nil) }
      end = .endOfFile
    } else if case .ended(let reason) = reading {
      end = reason
    } else {
      return nil
    }
    switch (end, portion) {
    case (.failed(let error), _): return .failure(error)
    case (.endOfFile, _) where inbound.isEmpty: return .success(nil)
    case (.endOfFile, .through): return .success(inbound.take(upTo: inbound.count))
    case (.endOfFile, .exactly(let count)):
      return .failure(
        IncompleteRead(
          subject: subject ?? "stream", expected: count, available: inbound.count))
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

  func tellConsumer(_ result: consuming Result<[UInt8]?, any Error>) {
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

  func serveReader() {
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

  func finish(_ reader: Reader, with end: Reading.End) {
    switch (end, reader.target) {
    case (.failed(let error), _): fail(reader, error)
    case (.endOfFile, .operation): tellConsumer(.success(nil))
    case (.endOfFile, .array(_, let continuation)): continuation.resume(returning: nil)
    case (.endOfFile, .memory(_, let continuation)): continuation.resume(returning: nil)
    case (.endOfFile, .portion(_, let continuation)): continuation.resume(returning: nil)
    }
  }
}
