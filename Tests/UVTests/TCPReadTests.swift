import TestSupport
import Testing
import UV

@Suite(.timeLimit(.minutes(1))) struct TCPReadTests {
  @Test(
    arguments: Place.allCases,
    [1, 2, 100, 65_535, 65_536, 65_537, 1_048_576, 16_777_216])
  func everyByteArrivesInBothDirectionsAtOnce(_ place: Place, _ count: Int) async throws {
    try await withConnectedStreams(place) { near, far in
      let bytes = Pattern.bytes(count)
      try await withThrowingTaskGroup { group in
        for stream in [near, far] {
          group.addTask {
            try await stream.write(bytes)
            try await stream.shutdownSending()
          }
          group.addTask {
            let received = try await stream.readPattern()
            #expect(received == count)
          }
        }
        try await group.waitForAll()
      }
    }
  }

  @Test(arguments: Place.allCases)
  func limitOfOneReadsByteByByte(_ place: Place) async throws {
    try await withConnectedStreams(place) { near, far in
      try await near.write(Pattern.bytes(1_000))
      for offset in 0..<1_000 {
        #expect(try await far.read(upTo: 1) == Pattern.bytes(offset..<offset + 1))
      }
    }
  }

  @Test(arguments: Place.allCases)
  func secondReadIsRefusedAndTheFirstUndisturbed(_ place: Place) async throws {
    try await withConnectedStreams(place) { near, far in
      let first = Collected<[UInt8]?>()
      try await near.loop.run { near.core.read { first.append(try? $0.get()) } }
      await #expect(throws: ConcurrentRead.self) { try await near.read() }
      await #expect(throws: ConcurrentRead.self) {
        try await withMemory(8) { try await near.read(into: $0) }
      }
      try await far.write("for the first")
      await first.waitUntil(count: 1)
      #expect(first.values == [Array("for the first".utf8)])
    }
  }

  @Test(arguments: Place.allCases)
  func cancelledReadLosesNoBytes(_ place: Place) async throws {
    let count = 200_000
    try await withConnectedStreams(place) { near, far in
      let writer = Task {
        for offset in stride(from: 0, to: count, by: 1_000) {
          try await near.write(Pattern.bytes(offset..<offset + 1_000))
        }
        try await near.shutdownSending()
      }
      var received = 0
      var isAtEnd = false
      var cancelled = 0
      while !isAtEnd {
        let reading = Task { try await far.read(upTo: 700) }
        if received % 3 == 0 { await Task.yield() }
        reading.cancel()
        do {
          guard let bytes = try await reading.value else {
            isAtEnd = true
            continue
          }
          #expect(Pattern.matches(bytes, at: received))
          received += bytes.count
        } catch is CancellationError {
          cancelled += 1
        }
      }
      #expect(received == count)
      try await writer.value
    }
  }

  @Test(arguments: Place.allCases)
  func cancelledReadEndsAndLeavesTheStreamUsable(_ place: Place) async throws {
    try await withConnectedStreams(place) { near, far in
      for _ in 0..<100 {
        let reading = Task { try await near.read() }
        await Task.yield()
        reading.cancel()
        await #expect(throws: CancellationError.self) { try await reading.value }
        let intoMemory = Task { try await withMemory(10) { try await near.read(into: $0) } }
        await Task.yield()
        intoMemory.cancel()
        await #expect(throws: CancellationError.self) { try await intoMemory.value }
      }
      try await far.write("x")
      #expect(try await near.read() == [UInt8(ascii: "x")])
    }
  }

  @Test(arguments: Place.allCases)
  func endOfStreamStaysTheEnd(_ place: Place) async throws {
    try await withConnectedStreams(place) { near, far in
      try await far.write("last")
      try await far.shutdownSending()
      var received: [UInt8] = []
      for try await bytes in near { received += bytes }
      #expect(received == Array("last".utf8))
      for _ in 0..<3 {
        #expect(try await near.read() == nil)
        let count = try await withMemory(4) { try await near.read(into: $0) }
        #expect(count == nil)
      }
      for try await _ in near { Issue.record("there is nothing left") }
      // The other direction is still open.
      try await near.write("answer")
      #expect(try await far.read() == Array("answer".utf8))
    }
  }

  @Test(arguments: Place.allCases)
  func resetFailsEveryReadAndWrite(_ place: Place) async throws {
    try await withConnectedStreams(place) { near, far in
      let reset = IOError(.connectionReset, "read", "\(near.peerAddress!)")
      let waiting = Task { try await near.read() }
      try await near.loop.someTurns()
      far.abort()
      await #expect(throws: reset) { try await waiting.value }
      for _ in 0..<3 {
        await #expect(throws: reset) { try await near.read() }
        await #expect(throws: IOError.self) { try await near.write("x") }
        await #expect(throws: IOError.self) { try await near.shutdownSending() }
      }
      await near.close()
      await #expect(throws: StreamClosed("read")) { try await near.read() }
      await #expect(throws: StreamClosed("write")) { try await near.write("x") }
    }
  }

  /// The system tells of the bytes and of the reset at once.
  @Test(arguments: Place.allCases)
  func resetRightAfterBytesIsNotTakenForTheEnd(_ place: Place) async throws {
    for _ in 0..<50 {
      try await withConnectedStreams(place) { near, far in
        try await near.loop.run {
          near.core.write(Pattern.bytes(1_000)) { _ in }
          near.core.abort()
        }
        await #expect(throws: IOError(.connectionReset, "read", "\(far.peerAddress!)")) {
          while try await far.read() != nil {}
        }
      }
    }
  }

  /// What the system still has when it tells of the hang-up goes to the reader that waits, whatever its memory.
  @Test(arguments: Place.allCases)
  func bytesBeforeTheEndAreReadIntoTheMemoryThatWaits(_ place: Place) async throws {
    for _ in 0..<50 {
      try await withConnectedStreams(place) { near, far in
        try await near.shutdownSending()
        #expect(try await far.read() == nil)
        let count = 3_000
        try await far.write(Pattern.bytes(count))
        try await far.shutdownSending()
        var received = 0
        try await withMemory(100) { memory in
          while let part = try await near.read(into: memory) {
            #expect(Pattern.matches(Array(memory[..<part]), at: received))
            received += part
          }
        }
        #expect(received == count)
      }
    }
  }

  @Test(arguments: Place.allCases)
  func readIntoMemoryTakesWhatWasReceivedBefore(_ place: Place) async throws {
    try await withConnectedStreams(place) { near, far in
      try await far.write(Pattern.bytes(10))
      // One byte is read, the rest is with the stream.
      #expect(try await near.read(upTo: 1) == Pattern.bytes(1))
      try await withMemory(4) { (memory) async throws in
        #expect(try await near.read(into: memory) == 4)
        #expect(Pattern.matches(Array(memory), at: 1))
      }
      try await withMemory(100) { memory in
        #expect(try await near.read(into: memory) == 5)
        #expect(Pattern.matches(Array(memory.prefix(5)), at: 5))
        let writer = Task {
          try await near.loop.someTurns()
          try await far.write(Pattern.bytes(10..<30))
        }
        #expect(try await near.read(into: memory) == 20)
        try await writer.value
        #expect(Pattern.matches(Array(memory.prefix(20)), at: 10))
      }
    }
  }

  @Test(arguments: Place.allCases)
  func readIntoMemoryReceivesALargeTransfer(_ place: Place) async throws {
    let count = 8_388_608
    try await withConnectedStreams(place) { near, far in
      let writer = Task { try await near.write(Pattern.bytes(count)) }
      try await withMemory(100_000) { memory in
        var received = 0
        while received < count, let part = try await far.read(into: memory) {
          #expect(Pattern.matches(Array(memory.prefix(part)), at: received))
          received += part
        }
        #expect(received == count)
      }
      try await writer.value
    }
  }

  @Test(arguments: Place.allCases)
  func senderIsHeldWhileNobodyReads(_ place: Place) async throws {
    let count = 67_108_864
    try await withConnectedStreams(place) { near, far in
      try await far.write(Pattern.bytes(1))
      #expect(try await near.read() == Pattern.bytes(1))
      let isDone = Collected<Void>()
      let bytes = Pattern.bytes(1..<count)
      let writer = Task {
        try await far.write(bytes)
        isDone.append(())
        try await far.shutdownSending()
      }
      // It is held when nothing moves any more although the loop goes round.
      var before = -1
      repeat {
        before = far.bytesQueued
        for _ in 0..<20 { try await near.loop.someTurns() }
      } while before == 0 || far.bytesQueued != before
      #expect(isDone.count == 0)
      // What is not held is in the system's buffers and in ours.
      #expect(far.bytesQueued > count / 4)
      #expect(try await near.readPattern(from: 1) == count - 1)
      try await writer.value
    }
  }

  @Test(arguments: Place.allCases)
  func receivingIsShutDownWithoutHoldingTheSender(_ place: Place) async throws {
    try await withConnectedStreams(place) { near, far in
      let waiting = Task { try await near.read() }
      try await near.loop.someTurns()
      near.shutdownReceiving()
      #expect(try await waiting.value == nil)
      near.shutdownReceiving()
      #expect(try await near.read() == nil)
      try await far.write(Pattern.bytes(16_777_216))
      #expect(try await near.read() == nil)
      try await near.write("still sending")
      #expect(try await far.read() == Array("still sending".utf8))
      await near.close()
      near.shutdownReceiving()
    }
  }

  @Test(arguments: Place.allCases)
  func receivingIsShutDownWithBytesWaiting(_ place: Place) async throws {
    try await withConnectedStreams(place) { near, far in
      let writer = Task { try await far.write(Pattern.bytes(16_777_216)) }
      #expect(try await near.read(upTo: 1) == Pattern.bytes(1))
      near.shutdownReceiving()
      #expect(try await near.read() == nil)
      try await writer.value
    }
  }

  @Test(arguments: Place.allCases)
  func closeEndsAWaitingRead(_ place: Place) async throws {
    for isAborted in [false, true] {
      try await withConnectedStreams(place) { near, far in
        let reading = Task { try await near.read() }
        try await near.loop.someTurns()
        if isAborted { near.abort() } else { await near.close() }
        await #expect(throws: StreamClosed("read")) { try await reading.value }
        await #expect(throws: StreamClosed("read")) { try await near.read() }
        await #expect(throws: StreamClosed("read")) {
          try await withMemory(4) { try await near.read(into: $0) }
        }
      }
    }
  }

  /// What was read must not stay in memory while more keeps coming.
  @Test func readerThatNeverCatchesUpNeedsNoMoreMemory() async throws {
    await #expect(processExitsWith: .success) {
      let count = 268_435_456
      try await withConnectedStreams(.loopThread) { near, far in
        let block = Pattern.bytes(1_048_576)
        let writer = Task {
          for _ in 0..<count / block.count { try await near.write(block) }
        }
        var received = 0
        while received < 16_777_216 { received += try await far.read(upTo: 10_007)!.count }
        let before = peakMemory()
        while received < count { received += try await far.read(upTo: 10_007)!.count }
        try await writer.value
        precondition(peakMemory() - before < count / 4, "\(peakMemory() - before) bytes")
      }
    }
  }
}

private func withMemory<Value>(
  _ count: Int, _ body: (UnsafeMutableRawBufferPointer) async throws -> Value
) async throws -> Value {
  let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: 1)
  defer { memory.deallocate() }
  return try await body(memory)
}
