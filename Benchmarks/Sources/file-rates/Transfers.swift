import UV

/// One chunk after the other.
extension Work {
  // MARK: Writing

  func write() async throws -> Double {
    let buffer = Buffer(chunkSize)
    number(blocksOf: buffer.memory)
    let memory = UnsafeRawBufferPointer(buffer.memory)
    return try await rateOfWriting { file, offset in
      try await file.write(from: [memory], at: offset)
    }
  }

  func writeArray() async throws -> Double {
    var chunk = [UInt8](repeating: 0, count: chunkSize)
    chunk.withUnsafeMutableBytes { number(blocksOf: $0) }
    return try await rateOfWriting { [chunk] file, offset in
      try await file.write(chunk, at: offset)
    }
  }

  private func number(blocksOf memory: UnsafeMutableRawBufferPointer) {
    for block in 0..<memory.count / blockSize {
      memory.storeBytes(
        of: word(ofBlock: block), toByteOffset: block * blockSize, as: UInt64.self)
    }
  }

  private func rateOfWriting(_ write: (File, Int) async throws -> Void) async throws -> Double {
    let options: FileOptions = [.writing, .create, .truncate]
    let time = try await FileSystem.withFile(at: written, options, loop: loop) { file in
      let start = ContinuousClock.now
      for offset in stride(from: 0, to: self.options.bytes, by: chunkSize) {
        try await write(file, offset)
      }
      return start.duration(to: .now)
    }
    try await checkWritten()
    try await FileSystem.removeFile(at: written, loop: loop)
    return mebibytes / time.inSeconds
  }

  private func checkWritten() async throws {
    let (count, sum) = try await FileSystem.withFile(at: written, loop: loop) {
      try await pass(byChunks: $0)
    }
    check(count == options.bytes, "\(count) bytes were written instead of \(options.bytes)")
    let expected = expectedSum(blocks: chunkSize / blockSize)
    check(sum == UInt64(options.bytes / chunkSize) &* expected, "the wrong bytes were written")
  }

  // MARK: Reading

  func read() async throws -> Double {
    let buffer = Buffer(chunkSize)
    return try await rateOfReading { try await pass(over: $0, with: buffer.memory) }
  }

  func readChunks() async throws -> Double {
    try await rateOfReading { try await pass(byChunks: $0) }
  }

  /// How much memory the process needs at most, beyond what it has with an open file, in MiB.
  func memory() async throws -> Double {
    try await FileSystem.withFile(at: content, loop: loop) { file in
      let before = memoryOfProcess("VmRSS:")
      checkRead(try await pass(byChunks: file))
      return Double(memoryOfProcess("VmHWM:") - before) / 1_024
    }
  }

  /// Reads the file twice, and takes the time of the second pass: then it is cached, and the pool has its threads.
  private func rateOfReading(
    _ pass: (File) async throws -> (count: Int, sum: UInt64)
  ) async throws -> Double {
    try await FileSystem.withFile(at: content, loop: loop) { file in
      checkRead(try await pass(file))
      let start = ContinuousClock.now
      let result = try await pass(file)
      let time = start.duration(to: .now)
      checkRead(result)
      return mebibytes / time.inSeconds
    }
  }

  func checkRead(_ result: (count: Int, sum: UInt64)) {
    check(result.count == options.bytes, "\(result.count) bytes were read")
    check(result.sum == expectedSum(blocks: options.bytes / blockSize), "the wrong bytes were read")
  }

  private func pass(
    over file: File, with memory: UnsafeMutableRawBufferPointer
  ) async throws -> (count: Int, sum: UInt64) {
    var (total, sum) = (0, UInt64(0))
    while let count = try await file.read(into: memory, at: total) {
      sum &+= sumOfBlocks(UnsafeRawBufferPointer(rebasing: memory[..<count]))
      total += count
    }
    return (total, sum)
  }

  func pass(byChunks file: File) async throws -> (count: Int, sum: UInt64) {
    var (count, sum) = (0, UInt64(0))
    for try await chunk in file.chunks(of: chunkSize) {
      sum &+= chunk.withUnsafeBytes { sumOfBlocks($0) }
      count += chunk.count
    }
    return (count, sum)
  }
}

/// Memory to read into or write from.
// Unchecked: one call at a time uses it.
final class Buffer: @unchecked Sendable {
  let memory: UnsafeMutableRawBufferPointer

  init(_ size: Int) {
    memory = .allocate(byteCount: size, alignment: 64)
    memory.initializeMemory(as: UInt8.self, repeating: 0)
  }

  deinit { memory.deallocate() }
}
