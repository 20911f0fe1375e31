import UV

/// Many at a time: each lane begins its next call when it has the result of the one before.
extension Work {
  // MARK: Random reads

  func random() async throws -> Double {
    try await rateOfRandomReads { file, random, reads in
      let buffer = Buffer(blockSize)
      return try await sum(of: reads, random) { offset in
        check(try await file.read(into: buffer.memory, at: offset) == blockSize, "a short read")
        return firstWord(UnsafeRawBufferPointer(buffer.memory))
      }
    }
  }

  func randomArrays() async throws -> Double {
    try await rateOfRandomReads { file, random, reads in
      try await sum(of: reads, random) { offset in
        let bytes = try await file.read(upTo: blockSize, at: offset) ?? []
        check(bytes.count == blockSize, "a short read")
        return bytes.withUnsafeBytes { firstWord($0) }
      }
    }
  }

  private func sum(
    of reads: Int, _ random: RandomBlocks, _ read: (Int) async throws -> UInt64
  ) async throws -> UInt64 {
    var random = random
    var sum: UInt64 = 0
    for _ in 0..<reads { sum &+= try await read(random.next() * blockSize) }
    return sum
  }

  /// - Parameter lane: Reads as many blocks as it is told, one after the other, and returns the sum of their first words.
  func rateOfRandomReads(
    _ lane: @escaping @Sendable (File, RandomBlocks, _ reads: Int) async throws -> UInt64
  ) async throws -> Double {
    let blocks = options.bytes / blockSize
    let reads = options.reads / laneCount
    return try await FileSystem.withFile(at: content, loop: loop) { file in
      checkRead(try await pass(byChunks: file))  // Now it is cached.
      let (sum, time) = try await inLanes(on: loop) {
        try await lane(file, RandomBlocks(seed: $0, of: blocks), reads)
      }
      check(sum == expectedSum(ofRandom: reads, of: blocks), "the wrong blocks were read")
      return Double(options.reads) / time.inSeconds
    }
  }

  private func expectedSum(ofRandom reads: Int, of blocks: Int) -> UInt64 {
    (0..<laneCount).reduce(0) { sum, lane in
      var random = RandomBlocks(seed: lane, of: blocks)
      return (0..<reads).reduce(sum) { sum, _ in sum &+ word(ofBlock: random.next()) }
    }
  }

  // MARK: Information

  func stat() async throws -> Double {
    let paths = (0..<fileCount).map { number in
      path("files").appending(FilePath(String(String(number + 10_000).dropFirst())))
    }
    _ = try await inLanes(on: loop) { try await sizes(of: paths, calls: fileCount, lane: $0) }
    let calls = options.stats
    let (sum, time) = try await inLanes(on: loop) {
      try await sizes(of: paths, calls: calls, lane: $0)
    }
    check(sum == (0..<calls).reduce(0) { $0 + UInt64($1 % fileCount) }, "the wrong sizes")
    return Double(calls) / time.inSeconds
  }

  private func sizes(of paths: [FilePath], calls: Int, lane: Int) async throws -> UInt64 {
    var sum: UInt64 = 0
    for call in stride(from: lane, to: calls, by: laneCount) {
      sum += UInt64(try await FileSystem.info(at: paths[call % fileCount], loop: loop).size)
    }
    return sum
  }
}

/// As many as file-rates-c has made; each is as long as its number says.
private let fileCount = 1_000
