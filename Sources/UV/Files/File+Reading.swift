extension File {
  /// Reads `limit` bytes, or up to the end if that is nearer; `nil` at the end. From a pipe or terminal, what is there.
  ///
  /// Any thread.
  ///
  /// - Parameter offset: Where to begin; `nil` for the cursor, which moves behind what was read.
  /// - Throws: ``IOError`` such as `isDirectory`, or `invalidArgument` for a negative offset; ``FileClosed``; `CancellationError`, which
  ///   loses no bytes: the next read without an offset gets them; ``EventLoopClosed``.
  public func read(upTo limit: Int, at offset: Int? = nil) async throws -> [UInt8]? {
    let bytes = try await core.loop.value(of: core.read(upTo: limit, at: offset), .existing)
    return bytes.isEmpty && limit > 0 ? nil : bytes
  }

  /// Reads into `memory` until it is full or the file ends; returns the number of bytes, `nil` at the end. From a pipe or terminal, what is
  /// there.
  ///
  /// As ``read(upTo:at:)``, without an array. The memory must stay valid until this returns, also when the task is cancelled: a read that
  /// runs then ends first.
  public func read(
    into memory: UnsafeMutableRawBufferPointer, at offset: Int? = nil
  ) async throws -> Int? {
    // Used in the pool alone, while this waits.
    nonisolated(unsafe) let memory = memory
    let read = MemoryRead(of: core, into: memory, at: offset)
    let count = try await core.loop.value(of: read, .existing)
    return count == 0 && !memory.isEmpty ? nil : count
  }

  /// Reads into pieces of memory, one after the other. As ``read(into:at:)-(UnsafeMutableRawBufferPointer,_)``.
  public func read(
    into memory: [UnsafeMutableRawBufferPointer], at offset: Int? = nil
  ) async throws -> Int? {
    // Used in the pool alone, while this waits.
    nonisolated(unsafe) let memory = memory
    let count = try await core.loop.value(of: core.read(into: memory, at: offset), .existing)
    return count == 0 && memory.contains { !$0.isEmpty } ? nil : count
  }

  /// Reads everything: of a file from its beginning, whatever the cursor is; of a pipe or terminal from now to its end.
  ///
  /// Any thread. It reads to the true end, which the size does not tell of a file that changes or one in `/proc`.
  ///
  /// - Throws: As ``read(upTo:at:)``.
  public func readAll() async throws -> [UInt8] {
    if core.isSeekable { return try await read(upTo: .max, at: 0) ?? [] }
    var bytes: [UInt8] = []
    while let more = try await read(upTo: 65_536) { bytes += more }
    return bytes
  }

  /// Where the next read or write without an offset begins. Any thread.
  ///
  /// - Throws: ``IOError`` with `invalidSeek` for a pipe or terminal, ``EventLoopClosed``.
  public func cursor() async throws -> Int {
    try await onLoop { core in
      guard core.isSeekable else {
        throw IOError(.invalidSeek, "seek", core.path.description)
      }
      return core.cursor
    }
  }

  /// Sets where the next read or write without an offset begins, after those that were called before. Any thread.
  ///
  /// - Throws: ``IOError`` with `invalidSeek` for a pipe or terminal, or `invalidArgument` for a negative offset; ``EventLoopClosed``.
  public func setCursor(to offset: Int) async throws {
    try await onLoop { core in
      guard core.isSeekable else {
        throw IOError(.invalidSeek, "seek", core.path.description)
      }
      guard offset >= 0 else {
        throw IOError(.invalidArgument, "seek", "\(core.path) at offset \(offset)")
      }
      _ = core.takeTurn { core.turnIsOver(advancedBy: offset - core.cursor) }
    }
  }

  private func onLoop<Value: Sendable>(
    _ body: @escaping @Sendable (FileCore) throws -> Value
  ) async throws -> Value {
    try await core.loop.wait { [core] continuation in
      continuation.resume(
        with: Result {
          guard core.isOpen else { throw FileClosed("seek", core.path) }
          return try body(core)
        })
    } cancel: {
    }
  }
}

extension FileCore {
  package func read(upTo limit: Int, at offset: Int?) -> BytesRead {
    trapUnless(limit >= 0, "A read cannot have less than no room: `limit` is \(limit).")
    return BytesRead(of: self, upTo: limit, at: offset)
  }

  package func read(
    into memory: [UnsafeMutableRawBufferPointer], at offset: Int?
  ) -> CountedTransfer {
    MemoryRead(of: self, into: memory, at: offset)
  }
}
