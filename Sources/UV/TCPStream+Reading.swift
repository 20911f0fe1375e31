extension TCPStream {
  /// Waits for bytes and returns what is there, `limit` at most; `nil` at the end of the stream.
  ///
  /// Any thread; one read at a time. Up to 64 KiB, and a little more, are received ahead; beyond that the sender is held by TCP.
  ///
  /// - Throws: ``IOError`` if the connection fails, ``StreamClosed`` after ``close(timeout:)``, ``ConcurrentRead`` while another read
  ///   waits, `CancellationError` when the task is cancelled, which loses no bytes; ``EventLoopClosed``.
  @inlinable @inline(__always)
  public func read(upTo limit: Int = 65_536) async throws -> [UInt8]? {
    if mustWaitAttended {
      return try await withUnsafeThrowingContinuation { waitAttended(upTo: limit, $0) }
    }
    return try await readOrWait(upTo: limit)
  }

  @usableFromInline
  func readOrWait(upTo limit: Int) async throws -> [UInt8]? {
    trapUnless(limit > 0, "A read must have room for a byte: `limit` is \(limit).")
    return try await read { [core] in
      core.readNow(upTo: limit)
    } later: {
      .array(limit: limit, $0)
    }
  }

  /// Whether there is nothing to be read yet, and somebody who ends a read when this task is cancelled.
  ///
  /// What a read and a write do mostly is inlined into their callers: after each asynchronous call the runtime looks up where the task is
  /// to run, which takes longer than the rest of a short message.
  @usableFromInline
  var mustWaitAttended: Bool { core.caller == .attended && core.readMustWait }

  @usableFromInline
  func waitAttended(upTo limit: Int, _ continuation: UnsafeContinuation<[UInt8]?, any Error>) {
    trapUnless(limit > 0, "A read must have room for a byte: `limit` is \(limit).")
    core.waitAttended(
      .array(limit: limit, LoopContinuation(continuation: continuation, loop: core.loop)))
  }

  /// Waits for bytes and puts what is there into `memory`; returns their number, `nil` at the end of the stream.
  ///
  /// As ``read(upTo:)``, without an array: while a read waits, the system writes straight into `memory`, which must stay valid until
  /// this returns.
  @inlinable @inline(__always)
  public func read(into memory: UnsafeMutableRawBufferPointer) async throws -> Int? {
    if mustWaitAttended {
      return try await withUnsafeThrowingContinuation { waitAttended(into: memory, $0) }
    }
    return try await readOrWait(into: memory)
  }

  @usableFromInline
  func readOrWait(into memory: UnsafeMutableRawBufferPointer) async throws -> Int? {
    trapUnless(!memory.isEmpty, "A read must have room for a byte: the memory is empty.")
    // Used on the loop thread alone, while this waits.
    nonisolated(unsafe) let memory = memory
    return try await read { [core] in
      core.readNow(into: memory)
    } later: {
      .memory(memory, $0)
    }
  }

  @usableFromInline
  func waitAttended(
    into memory: UnsafeMutableRawBufferPointer, _ continuation: UnsafeContinuation<Int?, any Error>
  ) {
    trapUnless(!memory.isEmpty, "A read must have room for a byte: the memory is empty.")
    core.waitAttended(
      .memory(memory, LoopContinuation(continuation: continuation, loop: core.loop)))
  }

  /// Waits for `count` bytes and returns them; `nil` if the stream ends before the first of them.
  ///
  /// As ``read(upTo:)``. Memory grows with what arrives, not with what is asked for.
  ///
  /// - Throws: ``IncompleteRead`` if the stream ends in between; otherwise as ``read(upTo:)``. After any error what has come can still be
  ///   read, unless ``shutdownReceiving()`` has thrown it away.
  public func read(exactly count: Int) async throws -> [UInt8]? {
    trapUnless(count >= 0, "A read cannot be of \(count) bytes.")
    return count == 0 ? [] : try await read(.exactly(count))
  }

  /// Waits for `delimiter` and returns the bytes up to and with it; at the end of the stream what is left, and then `nil`. Only what is
  /// left can be without the delimiter. When not the peer has ended the stream but this side, by ``shutdownReceiving()`` or because its
  /// server stops, a part without the delimiter is left out.
  ///
  /// As ``read(upTo:)``.
  ///
  /// - Parameter limit: How many bytes that may be, the delimiter included.
  /// - Throws: ``LineTooLong`` if there are more; otherwise as ``read(upTo:)``. After any error what has come can still be read.
  public func read(until delimiter: UInt8, upTo limit: Int = 65_536) async throws -> [UInt8]? {
    trapUnless(limit > 0, "A read must have room for a byte: `limit` is \(limit).")
    return try await read(.through(delimiter, limit: limit))
  }

  /// Waits for a line and returns it as text, without its end, which is `\n` or `\r\n`; at the end of the stream what is left, and then
  /// `nil`. What is not UTF-8 is replaced.
  ///
  /// - Parameter limit: How many bytes the line may have, its end included.
  /// - Throws: As ``read(until:upTo:)``.
  public func readLine(upTo limit: Int = 65_536) async throws -> String? {
    let newline = UInt8(ascii: "\n")
    guard var line = try await read(until: newline, upTo: limit)?[...] else { return nil }
    if line.last == newline {
      line = line.dropLast()
      if line.last == UInt8(ascii: "\r") { line = line.dropLast() }
    }
    return String(decoding: line, as: UTF8.self)
  }

  /// The lines up to the end of the stream, each as ``readLine(upTo:)`` returns it.
  ///
  /// Any thread; one iteration at a time, and no other read meanwhile. What follows the line at which an iteration ends can still be
  /// read.
  public func lines(upTo limit: Int = 65_536) -> Lines { Lines(stream: self, limit: limit) }

  /// The lines of a stream, made by ``lines(upTo:)``.
  public struct Lines: AsyncSequence, AsyncIteratorProtocol, Sendable {
    let stream: TCPStream
    let limit: Int

    public func makeAsyncIterator() -> Lines { self }

    public func next() async throws -> String? { try await stream.readLine(upTo: limit) }
  }

  private func read(_ portion: Portion) async throws -> [UInt8]? {
    try await read { [core] in
      core.readNow(portion)
    } later: {
      .portion(portion, $0)
    }
  }

  /// Gets what there is to get `now`, or waits as what `later` makes.
  private func read<Value: Sendable>(
    now: () -> Result<Value, any Error>?,
    later: @escaping @Sendable (LoopContinuation<Value>) -> Reader.Target
  ) async throws -> Value {
    if core.caller != .elsewhere, let result = now() { return try result.get() }
    let ticket = core.nextTicket()
    return try await core.loop.wait { [core] in
      core.begin(Reader(ticket: ticket, target: later($0)))
    } cancel: { [core] in
      core.cancelRead(ticket)
    }
  }

  /// Ends the receiving side: a read that waits gets the end of the stream, as does every later one, and what has come and what the peer
  /// still sends is thrown away. A waiting ``read(exactly:)`` that has got something fails with ``IncompleteRead``.
  ///
  /// Any thread. Harmless twice or after ``close(timeout:)``.
  public func shutdownReceiving() {
    core.loop.perform { self.core.shutdownReceiving() }
  }
}

/// A stream is the sequence of the bytes it receives, up to its end.
extension TCPStream: AsyncSequence {
  public struct AsyncIterator: AsyncIteratorProtocol {
    @usableFromInline let stream: TCPStream

    @inlinable @inline(__always)
    public func next() async throws -> [UInt8]? { try await stream.read() }

    /// What a loop calls. Were it left out, the loop would leave its isolation for every call of ``next()`` and come back.
    @inlinable @inline(__always)
    public func next(isolation actor: isolated (any Actor)?) async throws -> [UInt8]? {
      if stream.mustWaitAttended {
        return try await withUnsafeThrowingContinuation(isolation: actor) {
          stream.waitAttended(upTo: 65_536, $0)
        }
      }
      return try await stream.readOrWait(upTo: 65_536)
    }
  }

  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(stream: self) }
}
