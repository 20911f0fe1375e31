import Glibc
import TestSupport
import Testing
import UV

/// Files that have no positions and that block. Each test keeps one or two threads of the pool to itself for a while: side by side they could
/// take them all and wait for each other.
@Suite(.serialized, .timeLimit(.minutes(1))) struct FileFIFOTests {
  @Test func aReadThatWaitsForItsTurnIsCancelledAlone() async throws {
    try await withFIFO { file, writer in
      // The first waits for bytes, the others for the first.
      let first = Task { try await file.read(upTo: 3) }
      try await untilTaken(file) { first }
      let second = Task { try await file.read(upTo: 3) }
      let third = Task { try await file.read(upTo: 3) }
      second.cancel()
      await #expect(throws: CancellationError.self) { try await second.value }
      writer.write(Array("abcdef".utf8))
      let all = [try await first.value, try await third.value]
      #expect(Set(all) == [Array("abc".utf8), Array("def".utf8)])
    }
  }

  @Test func aCancelledReadOfAPipeLosesNoBytes() async throws {
    try await withFIFO { file, writer in
      var received: [UInt8] = []
      for round in 0..<50 {
        let reading = Task { try await file.read(upTo: 100) }
        if round % 2 == 0 { try await untilTaken(file) { reading } }
        reading.cancel()
        await #expect(throws: CancellationError.self) { try await reading.value }
        writer.write(Pattern.bytes(round * 10..<(round + 1) * 10))
        while received.count < (round + 1) * 10 {
          received += try #require(try await file.read(upTo: 7))
        }
      }
      #expect(received == Pattern.bytes(500))
      writer.close()
      #expect(try await file.read(upTo: 7) == nil)
      #expect(try await file.readAll() == [])
      await expectError(.invalidSeek) { _ = try await file.cursor() }
      await expectError(.invalidSeek) { try await file.setCursor(to: 1) }
    }
  }

  @Test func aChunkThatWasReadAheadIsThereAfterTheIteration() async throws {
    try await withFIFO { file, writer in
      writer.write(Array("one".utf8))
      do {
        let chunks = file.chunks(of: 100).makeAsyncIterator()
        let first = try await chunks.next()
        #expect(first == Array("one".utf8))
        writer.write(Array("two".utf8))
        await eventually("it is read ahead") { file.loop.statistics.requests == 0 }
        withExtendedLifetime(chunks) {}
      }
      let second = try await file.read(upTo: 100)
      #expect(second == Array("two".utf8))
    }
  }

  @Test func aCancelledOpenThatSucceedsLateIsClosed() async throws {
    try await withDirectory { directory, loop in
      let fifo = directory.appending("fifo")
      RawFile.makeFIFO(fifo)
      let opening = Task { try await File.open(at: fifo, loop: loop) }
      await eventually("the open is under way") { loop.statistics.requests == 1 }
      try await loop.someTurns()
      opening.cancel()
      // At once: nobody has opened the other end yet.
      await #expect(throws: CancellationError.self) { try await opening.value }
      if loop.statistics.requests == 1 {
        let writer = await RawFile.openedForWriting(fifo)
        await expectNothingLeft(on: loop)
        writer.close()
      }
      await expectNothingOpen(in: directory)
    }
  }

  @Test(.enabled(if: hasSecondThread))
  func openFilesGoOnInTheGracePeriod() async throws {
    try await withDirectory { directory, _ in
      let (path, fifo) = (directory.appending("file"), directory.appending("fifo"))
      RawFile.make(path, "content")
      RawFile.makeFIFO(fifo)
      let loop = try EventLoop()
      let file = try await File.open(at: path, [.reading, .writing], loop: loop)
      // Keeps the loop from being done at once.
      let opening = Task { try await File.open(at: fifo, loop: loop) }
      await eventually("the open is under way") { loop.statistics.requests == 1 }
      async let shutdown: Void = loop.shutdown(gracePeriod: .seconds(600))
      await eventually("the loop shuts down") { (try? loop.execute {}) == nil }
      #expect(try await file.read(upTo: 3) == Array("con".utf8))
      try await file.write("X", at: 0)
      #expect(try await file.readAll() == Array("Xontent".utf8))
      await #expect(throws: EventLoopClosed.self) { try await File.open(at: path, loop: loop) }
      await #expect(throws: EventLoopClosed.self) {
        try await FileSystem.info(at: path, loop: loop)
      }
      try await file.close()
      let writer = await RawFile.openedForWriting(fifo)
      writer.close()
      try await opening.value.close()
      await shutdown
    }
  }

  /// What blocks in the system cannot be interrupted. The shutdown waits for it and says so.
  @Test func aShutdownSaysWhatItWaitsFor() async throws {
    try await withDirectory { directory, _ in
      let fifo = directory.appending("fifo")
      RawFile.makeFIFO(fifo)
      let reports = Collected<String>()
      try await withReports(about: directory, to: reports) {
        let loop = try EventLoop()
        let opening = Task { try await File.open(at: fifo, loop: loop) }
        // Past the pool's queue, from which the shutdown would take it.
        await eventually("the open is under way") { loop.statistics.requests == 1 }
        let probe = RawFile.opened(fifo, O_WRONLY | O_NONBLOCK)
        if probe >= 0 { close(probe) }
        async let shutdown: Void = loop.shutdown()
        var error: (any Error)?
        do { try await opening.value.close() } catch let thrown { error = thrown }
        if probe < 0, error is EventLoopClosed, loop.statistics.requests == 1 {
          await reports.waitUntil(count: 1)
          #expect(reports.values.first?.contains("waits for: open \(fifo)") == true)
          let writer = await RawFile.openedForWriting(fifo)
          writer.close()
        }
        await shutdown
        #expect(loop.statistics.requests == 0)
      }
    }
  }

  /// The holes have to be there as zeros where no new file is made.
  @Test(.enabled(if: hasSecondThread))
  func aFIFOGetsEveryByteAndGivesThem() async throws {
    try await withDirectory { directory, loop in
      let (source, copy) = (directory.appending("source"), directory.appending("copy"))
      let fifo = directory.appending("fifo")
      RawFile.makeFIFO(fifo)
      let size = 400_000
      RawFile.makeSparse(source, size: size, Pattern.bytes(1_000), at: 200_000)
      async let writing: Void = FileSystem.copyFile(from: source, to: fifo, loop: loop)
      try await FileSystem.copyFile(from: fifo, to: copy, loop: loop)
      try await writing
      let content = RawFile.content(copy)!
      #expect(content == RawFile.content(source))
      #expect(content.count == size)
    }
  }
}

/// The reading end of a FIFO, and the other end.
private func withFIFO(_ body: (File, _ writer: RawDescriptor) async throws -> Void) async throws {
  try await withDirectory { directory, loop in
    let fifo = directory.appending("fifo")
    RawFile.makeFIFO(fifo)
    async let opening = File.open(at: fifo, loop: loop)
    let writer = await RawFile.openedForWriting(fifo)
    let file = try await opening
    do { try await body(file, writer) } catch { Issue.record(error) }
    writer.close()  // Lets a read end that a failed test has left.
    try await file.close()
  }
}

/// Returns when the loop has been given the call of a task.
private func untilTaken<Value>(_ file: File, _ task: () -> Task<Value, any Error>) async throws {
  _ = task()
  await eventually("the read is under way") { file.loop.statistics.requests > 0 }
  try await file.loop.someTurns()
}

/// Whether the pool has a thread for others while one blocks.
private let hasSecondThread = ThreadPool.statistics.threads > 1
