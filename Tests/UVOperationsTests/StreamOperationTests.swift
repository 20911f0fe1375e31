import Foundation
import TestSupport
import Testing
import UV
import UVOperations

@Suite(.timeLimit(.minutes(1)))
struct StreamOperationTests {
  // MARK: Together

  /// As in the README: nothing has an input yet when the operations are put into the queue.
  @Test func aChainOfOperationsTalksToAServer() async throws {
    try await withListener { listener in
      let server = Task {
        let stream = try await listener.accept()
        for try await bytes in stream { try await stream.write(bytes) }
        await stream.close()
      }
      let queue = OperationQueue()
      let connect = ConnectOperation(to: listener.localAddress, on: listener.loop)
      let write = WriteOperation("hello", to: try connect.output)
      let read = ReadOperation(from: try connect.output)
      let answer = WriteOperation(try read.output ?? [], to: try connect.output)
      let again = ReadOperation(from: try connect.output)
      let close = CloseOperation(try connect.output)
      write.addDependency(connect)
      read.addDependency(write)
      answer.addDependency(read)
      again.addDependency(answer)
      close.addDependency(again)
      queue.add(close, again, answer, read, write, connect)
      #expect(try await read.value == Array("hello".utf8))
      #expect(try await again.value == Array("hello".utf8))
      try await close.value
      try await server.value
    }
  }

  @Test func aFinishedChainIsReleased() async throws {
    try await withListener { listener in
      weak var connect: ConnectOperation?
      weak var read: ReadOperation?
      weak var close: CloseOperation?
      weak var stream: TCPStream?
      let server = Task {
        let stream = try await listener.accept()
        try await stream.write("hello")
        await stream.close()
      }
      do {
        let first = ConnectOperation(to: listener.localAddress, on: listener.loop)
        let second = ReadOperation(from: try first.output)
        let third = CloseOperation(try first.output)
        second.addDependency(first)
        third.addDependency(second)
        second.whenFinished { _ in _ = (first, second, third) }
        (connect, read, close) = (first, second, third)
        OperationQueue().add(first, second, third)
        #expect(try await second.value == Array("hello".utf8))
        try await third.value
        stream = try first.output
      }
      try await server.value
      await eventually("the read") { read == nil }
      await eventually("the close") { close == nil }
      await eventually("the connect") { connect == nil }
      await eventually("the stream") { stream == nil }
    }
  }

  @Test func anInputThatThrowsIsTheFailure() async throws {
    let read = ReadOperation(from: try { throw Broken() }())
    let write = WriteOperation("x", to: try { throw Broken() }())
    OperationQueue().add(read, write)
    await #expect(throws: Broken()) { try await read.value }
    await #expect(throws: Broken()) { try await write.value }
    try await withPair { pair in
      let bytes = WriteOperation(try { () throws -> [UInt8] in throw Broken() }(), to: pair.near)
      bytes.start()
      await #expect(throws: Broken()) { try await bytes.value }
    }
  }

  // MARK: Reading

  @Test func readsTakeAtMostTheirLimitAndThenTheEnd() async throws {
    try await withPair { pair in
      try await pair.far.write("abcde")
      try await pair.far.shutdownSending()
      var parts: [[UInt8]?] = []
      repeat {
        let read = ReadOperation(from: pair.near, upTo: 2)
        pair.queue.add(read)
        parts.append(try await read.value)
      } while parts.last! != nil
      #expect(parts.dropLast().allSatisfy { (1...2).contains($0!.count) })
      #expect(parts.compactMap { $0 }.joined().elementsEqual("abcde".utf8))
      let again = ReadOperation(from: pair.near)
      again.start()
      #expect(try await again.value == nil)
    }
  }

  /// Many times over, bytes arrive while the read is cancelled: either it has them, or the next read gets them.
  @Test(arguments: [false, true])
  func aCancelledReadLosesNoBytes(startsOnLoop: Bool) async throws {
    try await withPair { pair in
      var received: [UInt8] = []
      let rounds = 1_500
      for round in 0..<rounds {
        let read = ReadOperation(from: pair.near)
        if startsOnLoop { try await pair.loop.run { read.start() } } else { read.start() }
        let write = WriteOperation([UInt8(truncatingIfNeeded: round)], to: pair.far)
        write.start()
        for _ in 0..<round % 8 { await Task.yield() }
        read.cancel()
        do {
          received += try await read.value ?? []
        } catch {
          #expect(error is CancellationError)
        }
        try await write.value
      }
      await pair.far.close()
      received += try await readAll(pair.near)
      #expect(received == (0..<rounds).map { UInt8(truncatingIfNeeded: $0) })
    }
  }

  @Test func aTimedOutReadLosesNoBytes() async throws {
    try await withPair { pair in
      let read = ReadOperation(from: pair.near)
      read.timeout = .milliseconds(5)
      pair.queue.add(read)
      await #expect(throws: OperationTimedOut.self) { try await read.value }
      let next = ReadOperation(from: pair.near)
      pair.queue.add(next)
      let write = WriteOperation("late", to: pair.far)
      pair.queue.add(write)
      let bytes = try await next.value
      #expect(bytes == Array("late".utf8))
    }
  }

  @Test func timeoutsThatRaceArrivalsLoseNoBytes() async throws {
    try await withPair { pair in
      var received: [UInt8] = []
      let rounds = 200
      for round in 0..<rounds {
        let read = ReadOperation(from: pair.near)
        read.timeout = .milliseconds(1)
        read.start()
        let pause = TimerOperation(after: .microseconds(700 + Int64(round * 3)), on: pair.loop)
        let write = WriteOperation([UInt8(truncatingIfNeeded: round)], to: pair.far)
        write.addDependency(pause)
        pair.queue.add(pause, write)
        do {
          received += try await read.value ?? []
        } catch {
          #expect(error is OperationTimedOut)
        }
        try await write.value
      }
      await pair.far.close()
      received += try await readAll(pair.near)
      #expect(received == (0..<rounds).map { UInt8(truncatingIfNeeded: $0) })
    }
  }

  @Test func aSecondReadAtATimeIsRefused() async throws {
    try await withPair { pair in
      let first = ReadOperation(from: pair.near)
      let second = ReadOperation(from: pair.near)
      first.start()
      second.start()
      await #expect(throws: ConcurrentRead.self) { try await second.value }
      try await pair.far.write("x")
      #expect(try await first.value == [UInt8(ascii: "x")])
    }
  }

  @Test func aPeerThatResetsFailsTheRead() async throws {
    try await withPair { pair in
      let read = ReadOperation(from: pair.near)
      read.start()
      pair.far.abort()
      let error = await read.thrown as? IOError
      #expect(error?.code == .connectionReset && error?.operation == "read")
    }
  }

  @Test func closingEndsAReadThatWaits() async throws {
    try await withPair { pair in
      let read = ReadOperation(from: pair.near)
      read.start()
      let close = CloseOperation(pair.near)
      close.start()
      await #expect(throws: StreamClosed.self) { try await read.value }
      try await close.value
    }
  }

  @Test func aReadWithoutRoomTraps() async {
    await #expect(processExitsWith: .failure) {
      _ = ReadOperation(from: try { throw CancellationError() }(), upTo: 0)
    }
  }

  // MARK: Writing

  @Test func bytesTextAndDataAreSentInOrder() async throws {
    try await withPair { pair in
      pair.queue.maxConcurrentOperationCount = 1
      let writes = [
        WriteOperation([1, 2, 3] as [UInt8], to: pair.near),
        WriteOperation("é", to: pair.near),
        WriteOperation([] as [UInt8], to: pair.near),
        WriteOperation("", to: pair.near),
        WriteOperation(Data(), to: pair.near),
        WriteOperation(Data([9, 8]), to: pair.near),
      ]
      for write in writes { pair.queue.addOperation(write) }
      for write in writes { try await write.value }
      await pair.near.close()
      #expect(try await readAll(pair.far) == [1, 2, 3, 0xC3, 0xA9, 9, 8])
    }
  }

  @Test func aChainOfWritesOnTheLoopNeitherGrowsTheStackNorStarvesTimers() async throws {
    try await withPair { pair in
      let reader = Task { while try await pair.far.read() != nil {} }
      let isDone = Event()
      let ticks = Collected<Void>()
      @Sendable func writeNext(_ left: Int) {
        if left == 0 { return isDone.set() }
        let write = WriteOperation([1], to: pair.near)
        write.whenFinished { _ in writeNext(left - 1) }
        write.start()
      }
      let timer = try pair.loop.schedule(every: .milliseconds(1)) { _ in ticks.append(()) }
      try pair.loop.execute { writeNext(60_000) }
      await isDone.wait()
      timer.cancel()
      #expect(ticks.count > 0)
      pair.near.abort()
      _ = await reader.result
    }
  }

  @Test func aChainOfReadsOfAClosedStreamDoesNotGrowTheStack() async throws {
    try await withPair { pair in
      await pair.near.close()
      let isDone = Event()
      @Sendable func readNext(_ left: Int) {
        if left == 0 { return isDone.set() }
        let read = ReadOperation(from: pair.near)
        read.whenFinished { _ in readNext(left - 1) }
        read.start()
      }
      try pair.loop.execute { readNext(60_000) }
      await isDone.wait()
    }
  }

  @Test func aLargeWriteArrivesWhole() async throws {
    try await withPair { pair in
      let bytes = (0..<4_000_001).map { UInt8(truncatingIfNeeded: $0 / 7) }
      let write = WriteOperation(bytes, to: pair.near)
      let shutdown = ShutdownOperation(pair.near)
      shutdown.addDependency(write)
      pair.queue.add(write, shutdown)
      #expect(try await readAll(pair.far) == bytes)
      try await shutdown.value
    }
  }

  @Test(arguments: [false, true])
  func aWriteAfterTheCloseFails(isEmpty: Bool) async throws {
    try await withPair { pair in
      await pair.near.close()
      let write = WriteOperation(isEmpty ? "" : "late", to: pair.near)
      pair.queue.add(write)
      await #expect(throws: StreamClosed.self) { try await write.value }
    }
  }

  @Test func aWriteToAPeerThatDoesNotReadTimesOutAndBreaksTheStream() async throws {
    try await withPair { pair in
      let write = WriteOperation(moreThanTheSystemTakes, to: pair.near)
      write.timeout = .milliseconds(50)
      pair.queue.add(write)
      await #expect(throws: OperationTimedOut.self) { try await write.value }
      let next = WriteOperation("more", to: pair.near)
      pair.queue.add(next)
      await #expect(throws: StreamClosed.self) { try await next.value }
      // The block that libuv has stays until the end.
      await eventually { pair.near.bytesQueued <= 65_536 }
    }
  }

  @Test func writingToAPeerThatIsGoneFailsAndKillsNobody() async throws {
    try await withPair { pair in
      pair.far.abort()
      var error: (any Error)?
      repeat {
        let write = WriteOperation([UInt8](repeating: 1, count: 1_000_000), to: pair.near)
        write.start()
        error = await write.thrown
      } while error == nil
      let code = (error as? IOError)?.code
      #expect(code == .brokenPipe || code == .connectionReset)
    }
  }

  @Test func aCancelledWriteThatSentNothingLeavesTheStreamWhole() async throws {
    try await withPair { pair in
      let first = WriteOperation(moreThanTheSystemTakes, to: pair.near)
      let second = WriteOperation("never", to: pair.near)
      let third = WriteOperation("last", to: pair.near)
      try await pair.loop.run {
        for write in [first, second, third] { write.start() }
        second.cancel()
      }
      await #expect(throws: CancellationError.self) { try await second.value }
      async let received = readAll(pair.far)
      try await first.value
      try await third.value
      await pair.near.close()
      #expect(try await received == moreThanTheSystemTakes + Array("last".utf8))
    }
  }

  // MARK: Ending

  @Test func shuttingDownEndsOneDirectionAfterWhatWasWritten() async throws {
    try await withPair { pair in
      let write = WriteOperation("question", to: pair.near)
      let shutdown = ShutdownOperation(pair.near)
      let again = ShutdownOperation(pair.near)
      shutdown.addDependency(write)
      again.addDependency(shutdown)
      pair.queue.add(write, shutdown, again)
      #expect(try await readAll(pair.far) == Array("question".utf8))
      try await again.value
      let late = WriteOperation("late", to: pair.near)
      late.start()
      await #expect(throws: StreamClosed.self) { try await late.value }
      try await pair.far.write("answer")
      let read = ReadOperation(from: pair.near)
      pair.queue.add(read)
      #expect(try await read.value == Array("answer".utf8))
    }
  }

  @Test func shuttingDownAClosedStreamFails() async throws {
    try await withPair { pair in
      await pair.near.close()
      let shutdown = ShutdownOperation(pair.near)
      shutdown.start()
      await #expect(throws: StreamClosed.self) { try await shutdown.value }
    }
  }

  @Test func closingSendsWhatWasWrittenAndMayBeAskedTwice() async throws {
    try await withPair { pair in
      let write = WriteOperation("goodbye", to: pair.near)
      let closes = [CloseOperation(pair.near), CloseOperation(pair.near)]
      for close in closes { close.addDependency(write) }
      pair.queue.add(write, closes[0], closes[1])
      #expect(try await readAll(pair.far) == Array("goodbye".utf8))
      for close in closes { try await close.value }
      let again = CloseOperation(pair.near)
      again.start()
      try await again.value
    }
  }

  @Test func closingSucceedsWhenThePeerIsGone() async throws {
    try await withPair { pair in
      pair.far.abort()
      let close = CloseOperation(pair.near)
      pair.queue.add(close)
      try await close.value
    }
  }

  @Test func aCloseThatTakesTooLongResetsTheConnection() async throws {
    try await withPair { pair in
      let write = WriteOperation(moreThanTheSystemTakes, to: pair.near)
      write.start()
      await eventually { pair.near.bytesQueued > 0 }
      let close = CloseOperation(pair.near, within: .milliseconds(10))
      close.start()
      try await close.value
      #expect((await write.thrown as? IOError)?.code == .timedOut)
      await #expect(throws: IOError.self) { try await readAll(pair.far) }
    }
  }

  @Test func cancellingACloseResetsTheConnection() async throws {
    try await withPair { pair in
      let write = WriteOperation(moreThanTheSystemTakes, to: pair.near)
      write.start()
      await eventually { pair.near.bytesQueued > 0 }
      let close = CloseOperation(pair.near, within: .seconds(3_600))
      close.start()
      try await pair.loop.run {}
      close.cancel()
      await #expect(throws: CancellationError.self) { try await close.value }
      #expect(await write.thrown is StreamClosed)
      await #expect(throws: IOError.self) { try await readAll(pair.far) }
    }
  }
}
