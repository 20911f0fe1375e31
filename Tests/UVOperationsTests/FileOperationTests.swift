import Foundation
import TestSupport
import Testing
import UV
import UVOperations

/// Files as operations.
@Suite(.timeLimit(.minutes(1))) struct FileOperationTests {
  @Test func aFileFlowsFromOpenToCloseAlongDependencies() async throws {
    try await withFolder { folder, loop in
      let text = "a line\nanother\n"
      try await FileSystem.writeFile(text, to: folder.appending("in"), loop: loop)
      let open = OpenFileOperation(folder.appending("in"), on: loop)
      let read = ReadFileOperation(from: try open.output, upTo: 1_000)
      let write = WriteFileOperation(try read.output, to: folder.appending("out"), on: loop)
      let close = CloseFileOperation(try open.output)
      read.addDependency(open)
      write.addDependency(read)
      close.addDependency(write)
      close.startsAfterFailedDependencies = true
      let queue = OperationQueue()
      queue.add(close, write, read, open)
      try await close.value
      #expect(
        try await FileSystem.readFile(at: folder.appending("out"), loop: loop) == Array(text.utf8))
      let late = ReadFileOperation(from: try open.output, upTo: 1)
      queue.add(late)
      #expect(await late.thrown is FileClosed)
    }
  }

  @Test func aWholeFileIsReadAndWrittenByPathTextDataAndURL() async throws {
    try await withFolder { folder, loop in
      let queue = OperationQueue()
      let path = try #require(folder.appending("file").string)
      try await queue.run(WriteFileOperation("text", to: path, on: loop))
      let text = try await queue.run(ReadFileOperation(path, on: loop))
      #expect(text == Array("text".utf8))
      let url = URL(fileURLWithPath: path)
      try await queue.run(WriteFileOperation(Data([1, 2]), to: url, atomically: true, on: loop))
      let bytes = try await queue.run(ReadFileOperation(url, on: loop))
      #expect(bytes == [1, 2])
      let info = try await queue.run(FileInfoOperation(url, on: loop))
      #expect(info.size == 2 && abs(info.modified.date.timeIntervalSinceNow) < 600)
    }
  }

  @Test func aURLKeepsTheBytesOfItsPath() async throws {
    try await withFolder { folder, loop in
      let path = FilePath(bytes: Array(folder.bytes) + Array("/".utf8) + [0x61, 0xFF])
      try await FileSystem.writeFile("x", to: path, loop: loop)
      let url = try #require(URL(string: "file://\(folder)/a%FF"))
      #expect(try url.asFilePath() == path)
      let bytes = try await OperationQueue().run(ReadFileOperation(url, on: loop))
      #expect(bytes == Array("x".utf8))
      let web = try #require(URL(string: "https://example.com/a"))
      let read = ReadFileOperation(web, on: loop)
      read.start()
      #expect(await read.thrown is NotAFileURL)
    }
  }

  @Test func manyReadsAtOffsetsAreIndependent() async throws {
    try await withFolder { folder, loop in
      let bytes = Pattern.bytes(1 << 20)
      try await FileSystem.writeFile(bytes, to: folder.appending("f"), loop: loop)
      try await FileSystem.withFile(at: folder.appending("f"), loop: loop) { file in
        let queue = OperationQueue()
        let reads = stride(from: 0, to: 1 << 20, by: 4_096).map {
          ReadFileOperation(from: file, upTo: 4_096, at: $0)
        }
        queue.add(reads)
        await queue.waitUntilEmpty()
        let read = try reads.flatMap { try $0.output }
        #expect(read == bytes)
        let end = try await queue.run(ReadFileOperation(from: file, upTo: 1, at: 1 << 20))
        #expect(end == [])
      }
    }
  }

  @Test func writesWithoutAnOffsetGoOnWhereTheLastEnded() async throws {
    try await withFolder { folder, loop in
      let path = folder.appending("f")
      try await FileSystem.withFile(at: path, [.writing, .create], loop: loop) { file in
        let queue = OperationQueue()
        queue.maxConcurrentOperationCount = 1
        for number in 0..<100 { queue.add(WriteFileOperation("\(number),", into: file)) }
        await queue.waitUntilEmpty()
      }
      let text = (0..<100).map { "\($0)," }.joined()
      #expect(try await FileSystem.readFile(at: path, loop: loop) == Array(text.utf8))
    }
  }

  @Test func errorsSayWhatWasTriedOnWhat() async throws {
    try await withFolder { folder, loop in
      let missing = ReadFileOperation(folder.appending("no"), on: loop)
      missing.start()
      #expect(
        await missing.thrown as? IOError == IOError(.noSuchFile, "open", "\(folder)/no"))
      let nul = OpenFileOperation("a\0b", on: loop)
      nul.start()
      #expect((await nul.thrown as? IOError)?.code == .invalidArgument)
      let directory = ReadFileOperation(folder, on: loop)
      directory.start()
      #expect((await directory.thrown as? IOError)?.code == .isDirectory)
    }
  }

  @Test func aFailedOpenFailsTheChainAndLeavesNothing() async throws {
    try await withFolder { folder, loop in
      let open = OpenFileOperation(folder.appending("no"), on: loop)
      let read = ReadFileOperation(from: try open.output)
      let close = CloseFileOperation(try open.output)
      read.addDependency(open)
      close.addDependency(read)
      OperationQueue().add(close, read, open)
      #expect((await close.thrown as? IOError)?.code == .noSuchFile)
    }
  }

  @Test func aCopyCountsItsBytes() async throws {
    try await withFolder { folder, loop in
      let bytes = Pattern.bytes(3 << 20)
      try await FileSystem.writeFile(bytes, to: folder.appending("a"), loop: loop)
      let copy = CopyFileOperation(
        from: folder.appending("a"), to: folder.appending("b"), on: loop)
      try await OperationQueue().run(copy)
      #expect(copy.progress.completedUnitCount == Int64(bytes.count))
      #expect(copy.progress.isFinished)
      #expect(try await FileSystem.readFile(at: folder.appending("b"), loop: loop) == bytes)
    }
  }

  @Test(arguments: [false, true])
  func aCancelledCopyLeavesNothing(throughItsProgress: Bool) async throws {
    try await withFolder { folder, loop in
      let fifo = try #require(folder.appending("fifo").string)
      #expect(mkfifo(fifo, 0o600) == 0)
      let copy = CopyFileOperation(from: fifo, to: folder.appending("b"), on: loop)
      copy.start()
      // It gets some, and waits for more.
      let writer = await onThread { open(fifo, O_WRONLY) }
      #expect(write(writer, "abc", 3) == 3)
      await eventually("some is copied") { copy.progress.completedUnitCount == 3 }
      if throughItsProgress { copy.progress.cancel() } else { copy.cancel() }
      #expect(await copy.thrown is CancellationError)
      close(writer)
      let left = try await OperationQueue().run(ListDirectoryOperation(folder, on: loop))
      #expect(left.map(\.name) == ["fifo"])
    }
  }

  @Test func openingAFIFOThatNobodyWritesToCanBeCancelledAndTimesOut() async throws {
    try await withFolder { folder, loop in
      let fifo = try #require(folder.appending("fifo").string)
      #expect(mkfifo(fifo, 0o600) == 0)
      let cancelled = OpenFileOperation(fifo, on: loop)
      let timed = ReadFileOperation(fifo, on: loop)
      timed.timeout = .milliseconds(10)
      let queue = OperationQueue()
      queue.maxConcurrentOperationCount = 1
      queue.add(timed, cancelled)
      #expect(await timed.thrown is OperationTimedOut)
      await eventually { cancelled.isExecuting }
      cancelled.cancel()
      #expect(await cancelled.thrown is CancellationError)
      // Two threads of the pool still wait: a writer lets them go, and closes what they have opened.
      let writer = await onThread { open(fifo, O_WRONLY) }
      await eventually("the opens have ended") { loop.statistics.requests == 0 }
      close(writer)
    }
  }

  @Test func pathsAreMadeListedRenamedAndRemoved() async throws {
    try await withFolder { folder, loop in
      let queue = OperationQueue()
      let deep = folder.appending("a/b/c")
      try await queue.run(CreateDirectoryOperation(deep, withIntermediates: true, on: loop))
      try await queue.run(WriteFileOperation("1", to: deep.appending("y"), on: loop))
      try await queue.run(WriteFileOperation("2", to: deep.appending("x"), on: loop))
      try await queue.run(
        RenameFileOperation(deep.appending("y"), to: deep.appending("z"), on: loop))
      let listed = try await queue.run(ListDirectoryOperation(deep, on: loop))
      #expect(listed.map(\.name) == ["x", "z"] && listed.allSatisfy { $0.kind == .regular })
      try await queue.run(RemoveOperation(folder.appending("a"), on: loop))
      // Not inside `#expect`: the compiler confuses its autoclosures with those outside.
      let left = try await queue.run(ListDirectoryOperation(folder, on: loop))
      #expect(left.isEmpty)
    }
  }

  @Test func cancellingAtAnyMomentLeavesNoDescriptor() async throws {
    try await withFolder { folder, loop in
      let path = folder.appending("f")
      try await FileSystem.writeFile(Pattern.bytes(100_000), to: path, loop: loop)
      let queue = OperationQueue()
      for round in 0..<300 {
        let open = OpenFileOperation(path, on: loop)
        let read = ReadFileOperation(from: try open.output)
        let close = CloseFileOperation(try open.output)
        read.addDependency(open)
        // A read that is cancelled does not wait for the open any more.
        close.addDependency(open)
        close.addDependency(read)
        close.startsAfterFailedDependencies = true
        queue.add(open, read, close)
        for _ in 0..<(round % 40) { await Task.yield() }
        (round % 2 == 0 ? open : read as Operation).cancel()
      }
      await queue.waitUntilEmpty()
    }
  }
}

/// Runs `body` with a directory for this test and a loop, which then has no request left, and the process no file of the directory open.
func withFolder(_ body: (FilePath, EventLoop) async throws -> Void) async throws {
  try await withLoop { loop in
    try await FileSystem.withTemporaryDirectory(loop: loop) { folder in
      let folder = try await FileSystem.canonicalPath(of: folder, loop: loop)
      try await body(folder, loop)
      await eventually("no request is left") { loop.statistics.requests == 0 }
      await eventually("no file is open") { !openPaths().contains { $0.hasPrefix("\(folder)") } }
    }
  }
}

/// Where the descriptors of this process lead.
private func openPaths() -> [String] {
  descriptorNumbers().compactMap {
    try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)")
  }
}
