import Dispatch
import Glibc
import TestSupport
import Testing
import UV

@Suite(.timeLimit(.minutes(1))) struct ThreadPoolTests {
  @Test(arguments: [0, -1, 1_025, Int.max, Int.min])
  func aSizeThatMakesNoSenseIsRefused(_ size: Int) async {
    await expectError(.invalidArgument) { try ThreadPool.setSize(size) }
  }

  @Test func theSizeIsRefusedOnceSomethingHasRun() async throws {
    try await withLoop { loop in
      _ = try await FileSystem.info(at: "/", loop: loop)
      let size = ThreadPool.statistics.threads
      #expect(throws: ThreadPoolInUse(size: size)) { try ThreadPool.setSize(8) }
      #expect(ThreadPool.statistics.threads == size)
    }
  }

  @Test func thePoolHasTheThreadsThatWereAskedFor() async throws {
    await #expect(processExitsWith: .success) { try await useFiles(threads: 1) }
    await #expect(processExitsWith: .success) { try await useFiles(threads: 64) }
  }

  @Test func theEnvironmentsSizeIsKnown() async throws {
    await #expect(processExitsWith: .success) {
      setenv("UV_THREADPOOL_SIZE", "7", 1)
      precondition(ThreadPool.statistics.threads == 7)
      try await checkThreads(7)
    }
  }

  @Test func theLastSizeCounts() async throws {
    await #expect(processExitsWith: .success) {
      try ThreadPool.setSize(1_024)
      try ThreadPool.setSize(3)
      precondition(ThreadPool.statistics.threads == 3)
      try await checkThreads(3)
    }
  }

  @Test func workThatBlocksNeverTakesTheLastThread() async throws {
    await #expect(processExitsWith: .success) {
      try ThreadPool.setSize(4)
      try await withDirectory { directory, loop in
        let path = directory.appending("file")
        RawFile.make(path, "content")
        try await withBlockedWork(1_200, on: loop) {
          for _ in 0..<20 {
            let content = try await FileSystem.readFile(at: path, loop: loop)
            precondition(content == Array("content".utf8))
            try await FileSystem.writeFile("content", to: path, loop: loop)
          }
          precondition(ThreadPool.statistics.queued == 1_197)
        }
      }
    }
  }

  @Test func lookUpsCountAsWorkThatBlocks() async throws {
    await #expect(processExitsWith: .success) {
      try ThreadPool.setSize(4)
      try await withDirectory { directory, loop in
        let path = directory.appending("file")
        RawFile.make(path, "content")
        var lookUp: Task<Int, any Error>?
        try await withBlockedWork(10, on: loop) {
          await eventually("three work") { ThreadPool.statistics.running == 3 }
          precondition(ThreadPool.statistics.queued == 7)
          lookUp = Task { try await loop.resolve("localhost", port: 1).count }
          await eventually("the look-up waits") { ThreadPool.statistics.queued == 8 }
          _ = try await FileSystem.readFile(at: path, loop: loop)
          precondition(ThreadPool.statistics.queued == 8)
        }
        let found = try await lookUp!.value
        precondition(found > 0)
        let statistics = ThreadPool.statistics
        precondition(statistics.threads == 4 && statistics.running + statistics.queued == 0)
      }
    }
  }

  @Test func workThatWaitsIsCancelledAndOthersGetItsPlace() async throws {
    await #expect(processExitsWith: .success) {
      try ThreadPool.setSize(4)
      try await withLoop { loop in
        let ran = Tally()
        try await withBlockedWork(3, on: loop) {
          await eventually("three work") { ThreadPool.statistics.running == 3 }
          let ended = Collected<Bool>()
          try await loop.run {
            for number in 0..<100 {
              let work = WorkRequest(loop: loop.core) { ran.add() }
              work.start { ended.append((try? $0.get()) == nil) }
              if number % 2 == 0 { work.cancel(CancellationError()) }
            }
          }
          precondition(ended.values == Array(repeating: true, count: 50))
          precondition(ThreadPool.statistics.queued == 50)
          precondition(ran.value == 0)
        }
        await eventually("the others have run") { ran.value == 50 }
        await expectNothingLeft(on: loop)
        precondition(ThreadPool.statistics.queued == 0)
      }
    }
  }

  @Test func workThatWaitsEndsWithItsLoopAndAnotherGoesOn() async throws {
    await #expect(processExitsWith: .success) {
      try ThreadPool.setSize(4)
      try await withLoop { other in
        let loop = try EventLoop()
        let ended = Tally()
        let ran = Tally()
        try await withBlockedWork(3, on: other) {
          await eventually("three work") { ThreadPool.statistics.running == 3 }
          try await loop.run {
            for _ in 0..<10 {
              WorkRequest(loop: loop.core) { fatalError("nobody waits for it") }
                .start {
                  if case .failure(let error) = $0, error is EventLoopClosed { ended.add() }
                }
            }
          }
          try await other.run {
            for _ in 0..<10 { WorkRequest(loop: other.core) { ran.add() }.start { _ in } }
          }
          await loop.shutdown()
          precondition(ended.value == 10 && ran.value == 0)
        }
        await eventually("the others have run") { ran.value == 10 }
        await expectNothingLeft(on: other)
      }
    }
  }

  /// What files can do to the pool is documented: all threads are lost, and the shutdown says to whom.
  @Test func filesThatBlockTakeEveryThread() async throws {
    await #expect(processExitsWith: .success) {
      try ThreadPool.setSize(4)
      try await withDirectory { directory, _ in
        let loop = try EventLoop()
        let fifo = directory.appending("fifo")
        RawFile.makeFIFO(fifo)
        let openings = (0..<4).map { _ in Task { try await File.open(at: fifo, loop: loop) } }
        await eventually("the threads are lost") { ThreadPool.statistics.running == 4 }
        let late = Task { try await FileSystem.info(at: fifo, loop: loop) }
        await eventually("the call waits") { ThreadPool.statistics.queued == 1 }
        late.cancel()
        do { _ = try await late.value } catch is CancellationError {}
        let reports = Collected<String>()
        await withReports(about: fifo, to: reports) {
          async let shutdown: Void = loop.shutdown()
          for opening in openings {
            do { try await opening.value.close() } catch is EventLoopClosed {} catch {
              fatalError("\(error)")
            }
          }
          await reports.waitUntil(count: 1)
          precondition(reports.values[0].contains("waits for: open \(fifo), open \(fifo)"))
          let writer = await RawFile.openedForWriting(fifo)
          await shutdown
          writer.close()
        }
      }
    }
  }
}

private func useFiles(threads: Int) async throws {
  try ThreadPool.setSize(threads)
  precondition(ThreadPool.statistics.threads == threads)
  try await withDirectory { directory, loop in
    try await withThrowingTaskGroup { group in
      for number in 0..<200 {
        group.addTask {
          let path = directory.appending("\(number)")
          try await FileSystem.writeFile(Pattern.bytes(1_000), to: path, loop: loop)
          let bytes = try await FileSystem.readFile(at: path, loop: loop)
          precondition(bytes == Pattern.bytes(1_000))
        }
      }
      try await group.waitForAll()
    }
    // With one thread, work and files share it.
    let result = Collected<Int>()
    try await loop.run {
      WorkRequest(loop: loop.core) { 42 }.start { result.append((try? $0.get()) ?? 0) }
    }
    await result.waitUntil(count: 1)
    precondition(result.values == [42])
  }
  try await checkThreads(threads)
}

/// Checks that the system knows as many threads of libuv's pool, by having them all blocked in opening a FIFO.
private func checkThreads(_ count: Int) async throws {
  try await withDirectory { directory, loop in
    let fifo = directory.appending("fifo")
    RawFile.makeFIFO(fifo)
    let openings = (0..<count + 1).map { _ in Task { try await File.open(at: fifo, loop: loop) } }
    await eventually("all threads are busy") { ThreadPool.statistics.queued == 1 }
    precondition(ThreadPool.statistics.running == count)
    await eventually("all threads wait for the other end") { threadsInOpen() >= count }
    precondition(threadsInOpen() == count)
    let writer = await RawFile.openedForWriting(fifo)
    for opening in openings { try await opening.value.close() }
    writer.close()
  }
}

/// How many threads of this process are in the kernel's wait for the other end of a FIFO.
private func threadsInOpen() -> Int {
  RawFile.names("/proc/self/task").count { thread in
    let call = RawFile.content(FilePath("/proc/self/task/\(thread)/syscall")) ?? []
    // The number of `open` or `openat` comes first.
    return call.starts(with: "257 ".utf8) || call.starts(with: "2 ".utf8)
      || call.starts(with: "56 ".utf8)
  }
}

/// Runs `body` while `count` pieces of work block, as many as the pool lets.
private func withBlockedWork(
  _ count: Int, on loop: EventLoop, _ body: () async throws -> Void
) async throws {
  let mayEnd = DispatchSemaphore(value: 0)
  let ended = Tally()
  try await loop.run {
    for _ in 0..<count {
      WorkRequest(loop: loop.core) { mayEnd.wait() }.start { _ in ended.add() }
    }
  }
  let result: Result<Void, any Error>
  do { result = .success(try await body()) } catch { result = .failure(error) }
  for _ in 0..<count { mayEnd.signal() }
  await eventually("the work has ended") { ended.value == count }
  try result.get()
}
