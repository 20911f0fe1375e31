extension TCPStream {
  /// Sends all of `bytes`, in order, and returns when the system has taken them.
  ///
  /// Any thread. The bytes of one call stay together, calls from one task keep their order. The bytes are the stream's until this
  /// returns; a peer that does not read makes it wait.
  ///
  /// - Throws: ``IOError`` if the connection fails, ``StreamClosed`` after ``close(timeout:)`` or ``shutdownSending()``, and
  ///   `CancellationError` if the task is cancelled; ``EventLoopClosed``. After any error some of `bytes` may have been sent: close the
  ///   stream, do not retry. A stream that has sent a part of a cancelled write refuses further ones.
  @inlinable @inline(__always)
  public func write(_ bytes: [UInt8]) async throws {
    if let sent = try writeInline(bytes) { try await write(bytes, from: sent) }
  }

  /// Hands `bytes` to the system without waiting.
  ///
  /// - Returns: How many it has taken, if there is more to do.
  @usableFromInline
  func writeInline(_ bytes: [UInt8]) throws -> Int? {
    guard core.caller != .elsewhere, core.mayCompleteInline() else { return 0 }
    let sent = try bytes.withUnsafeBytes(core.writeNow).get()
    return sent == bytes.count && core.isFlushed ? nil : sent
  }

  /// Sends `text` in UTF-8. As ``write(_:)-([UInt8])``.
  public func write(_ text: some StringProtocol) async throws { try await write(Array(text.utf8)) }

  /// Sends all of `bytes`: a slice, a `Data`, the UTF-8 of a string. As ``write(_:)-([UInt8])``; what the system does not take at once is
  /// copied.
  public func write(_ bytes: some Collection<UInt8>) async throws {
    var sent = 0
    if core.caller != .elsewhere, core.mayCompleteInline() {
      let result = bytes.withContiguousStorageIfAvailable {
        core.writeNow(UnsafeRawBufferPointer($0))
      }
      if let result {
        sent = try result.get()
        if sent == bytes.count, core.isFlushed { return }
      }
    }
    try await write(Array(bytes), from: sent)
  }

  /// Sends all of the memory that `bytes` spans. As ``write(_:)-([UInt8])``; what the system does not take at once is copied.
  public func write(_ bytes: RawSpan) async throws {
    var sent = 0
    if core.caller != .elsewhere, core.mayCompleteInline() {
      sent = try bytes.withUnsafeBytes(core.writeNow).get()
      if sent == bytes.byteCount, core.isFlushed { return }
    }
    try await write(bytes.withUnsafeBytes { Array($0) }, from: sent)
  }

  /// Sends `pieces` one after the other, together, as one write. As ``write(_:)-([UInt8])``.
  public func write(contentsOf pieces: [[UInt8]]) async throws {
    if pieces.count == 1 { return try await write(pieces[0]) }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(pieces.reduce(0) { $0 + $1.count })
    for piece in pieces { bytes += piece }
    try await write(bytes)
  }

  @usableFromInline
  func write(_ bytes: [UInt8], from sent: Int) async throws {
    let ticket = core.nextTicket()
    try await core.loop.wait { [core] (continuation: LoopContinuation<Void>) in
      // Started here, after a first part was perhaps sent by the caller: nothing can come in between on the loop thread.
      switch sent > 0 ? .success(sent) : bytes.withUnsafeBytes(core.writeNow) {
      case .failure(let error):
        continuation.resume(throwing: error)
      case .success(let sent) where sent == bytes.count && core.isFlushed:
        core.loop.nextTurn { continuation.resume() }
      case .success(let sent):
        core.enqueue(bytes, sent: sent, ticket: ticket, .continuation(continuation))
      }
    } cancel: { [core] in
      core.cancelWrite(ticket)
    }
  }

  /// Sends the end of the stream after what was written, and returns when it is on its way. Reading goes on.
  ///
  /// Any thread; again, it waits for the same end. Cancelling the task has no effect.
  ///
  /// - Throws: ``IOError`` if the connection fails, ``StreamClosed`` after ``close(timeout:)``, ``EventLoopClosed``.
  public func shutdownSending() async throws {
    try await core.loop.wait { [core] (continuation: LoopContinuation<Void>) in
      core.shutdownSending { continuation.resume(with: $0) }
    } cancel: {
    }
  }
}
