extension File {
  /// Writes all of `bytes`, and returns when the system has them; ``sync()`` brings them to the device.
  ///
  /// Any thread. What is written beyond the end makes the file longer; a gap reads as zeros. A file opened with ``FileOptions/appending``
  /// is always written at its end, and the bytes of one call, up to 16 MiB, stay together.
  ///
  /// - Parameter offset: Where to begin; `nil` for the cursor, which moves behind what was written.
  /// - Throws: ``IOError`` such as `noSpace`, whose ``IOError/bytesWritten`` says how much was written before; `invalidArgument` for a
  ///   negative offset; ``FileClosed``; `CancellationError`, after which some of the bytes may be in the file; ``EventLoopClosed``.
  public func write(_ bytes: [UInt8], at offset: Int? = nil) async throws {
    try await write(contentsOf: [bytes], at: offset)
  }

  /// Writes all of `bytes`: a slice, a `Data`, the UTF-8 of a string. As ``write(_:at:)-([UInt8],_)``, with a copy.
  public func write(_ bytes: some Collection<UInt8>, at offset: Int? = nil) async throws {
    try await write(Array(bytes), at: offset)
  }

  /// Writes `text` in UTF-8. As ``write(_:at:)-([UInt8],_)``.
  public func write(_ text: some StringProtocol, at offset: Int? = nil) async throws {
    try await write(Array(text.utf8), at: offset)
  }

  /// Writes pieces one after the other, with as few system calls as possible. As ``write(_:at:)-([UInt8],_)``.
  public func write(contentsOf pieces: [[UInt8]], at offset: Int? = nil) async throws {
    _ = try await core.loop.value(of: core.write(pieces, at: offset), .existing)
  }

  /// Writes pieces of the caller's memory. As ``write(_:at:)-([UInt8],_)``, without a copy; the memory must stay valid until this returns,
  /// also when the task is cancelled: a write that runs then ends first.
  public func write(from memory: [UnsafeRawBufferPointer], at offset: Int? = nil) async throws {
    // Used in the pool alone, while this waits.
    nonisolated(unsafe) let memory = memory
    let count = try await core.loop.value(of: core.write(from: memory, at: offset), .existing)
    // One that was cancelled while it ran may have stopped before the end.
    if count < memory.reduce(0, { $0 + $1.count }) { throw CancellationError() }
  }
}

extension FileCore {
  package func write(_ pieces: [[UInt8]], at offset: Int?) -> CountedTransfer {
    BytesWrite(pieces, to: self, at: offset)
  }

  package func write(from memory: [UnsafeRawBufferPointer], at offset: Int?) -> CountedTransfer {
    MemoryWrite(memory, to: self, at: offset)
  }
}
