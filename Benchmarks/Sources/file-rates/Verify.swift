import UV
import UVOperations

/// Writes the file in pieces of random sizes, reads it back in pieces of other sizes, and compares each byte.
extension Work {
  func verify() async throws -> Double {
    try await verify {
      try await $0.write($1)
    } read: {
      try await $0.read(upTo: $1) ?? []
    }
  }

  func verifyOperations() async throws -> Double {
    try await verify {
      try await finished(WriteFileOperation($1, into: $0))
    } read: {
      try await finished(ReadFileOperation(from: $0, upTo: $1))
    }
  }

  private func finished<Output: Sendable>(
    _ operation: ResultOperation<Output>
  ) async throws -> Output {
    operation.start()
    return try await operation.value
  }

  private func verify(
    _ write: @Sendable (File, [UInt8]) async throws -> Void,
    read: @Sendable (File, Int) async throws -> [UInt8]
  ) async throws -> Double {
    let options: FileOptions = [.reading, .writing, .create, .truncate]
    let start = ContinuousClock.now
    try await FileSystem.withFile(at: written, options, loop: loop) { file in
      try await self.forEachPiece(seed: 1) { try await write(file, bytes($0)) }
      try await file.setCursor(to: 0)
      try await self.forEachPiece(seed: 2) {
        check(try await read(file, $0.count) == bytes($0), "other bytes from \($0.lowerBound) on")
      }
      check(try await read(file, 1).isEmpty, "more bytes than were written")
    }
    let time = start.duration(to: .now)
    try await FileSystem.removeFile(at: written, loop: loop)
    return 2 * mebibytes / time.inSeconds
  }

  private func forEachPiece(seed: Int, _ body: (Range<Int>) async throws -> Void) async throws {
    var random = RandomBlocks(seed: seed, of: 2 * chunkSize)
    var offset = 0
    while offset < options.bytes {
      let end = min(options.bytes, offset + 1 + random.next())
      try await body(offset..<end)
      offset = end
    }
  }
}

/// What the file has at these offsets.
private func bytes(_ offsets: Range<Int>) -> [UInt8] {
  offsets.map { UInt8(truncatingIfNeeded: ($0 &* 2_654_435_761) >> 13) }
}
