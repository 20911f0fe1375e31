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

// How bytes come in: from libuv to the reader that waits, or to those that wait for one.
extension StreamCore {
  func startReading() {
    switch reading {
    case .active, .ended: return
    case .notStarted, .paused: break
    }
    let status = uv_read_start(stream, giveMemory, bytesDidArrive)
    if status == 0 { reading = .active } else { inputEnded(status) }
  }

  func resumeReadingIfDrained() {
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
    // A reader that was put off to the next turn has bytes waiting that come before these, unless it collects them.
    if let reader, inbound.isEmpty || reader.collects {
      self.reader = nil
      hand(count) { deliver(arrived, to: reader) }
    } else {
      inbound.append(arrived)
    }
    pauseIfFull()
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
    case .portion(let portion, let continuation):
      inbound.append(arrived)
      if let outcome = outcome(of: portion) { return continuation.resume(with: outcome) }
      self.reader = reader
    }
  }

  private func split(_ arrived: UnsafeRawBufferPointer, at limit: Int) -> [UInt8] {
    if arrived.count <= limit { return [UInt8](arrived) }
    inbound.append(UnsafeRawBufferPointer(rebasing: arrived[limit...]))
    return [UInt8](UnsafeRawBufferPointer(rebasing: arrived[..<limit]))
  }

  private func pauseIfFull() {
    guard inbound.count >= StreamCore.highWaterMark, case .active = reading else { return }
    // Somebody may wait for more than that.
    if case .portion(let portion, _) = reader?.target, inbound.count < portion.limit { return }
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
    } else if let reader, reader.collects {
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
    // What is here is for the reader, who was put off to the next turn, unless it is not all that it wants.
    guard inbound.isEmpty || reader.collects else { return }
    if systemHasBytes { return }
    wasSilent = true
    endInput()
  }

  /// Whether there is something to be read that libuv has not come to yet: the loop may have been busy for long.
  private var systemHasBytes: Bool {
    var descriptor: CInt = -1
    var byte: UInt8 = 0
    return uv_fileno(handle, &descriptor) == 0
      && recv(descriptor, &byte, 1, CInt(MSG_PEEK) | CInt(MSG_DONTWAIT)) > 0
  }

  /// Ends the receiving side: a waiting read gets the end of the stream, and so does every later one. What has come and what the peer
  /// still sends is thrown away.
  package func shutdownReceiving() {
    guard isOpen, life == .open, !discardsInput else { return }
    endInput()
    inbound.removeAll()
    guard let reader else { return }
    self.reader = nil
    finish(reader, with: .endOfFile)
  }

  /// Throws away what the peer still sends. What has come already can be read.
  private func endInput() {
    discardsInput = true
    startReading()
    guard let reader, inbound.isEmpty || reader.collects else { return }
    self.reader = nil
    if case .portion(let portion, let continuation) = reader.target {
      continuation.resume(with: outcome(of: portion) ?? .success(nil))
    } else {
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
