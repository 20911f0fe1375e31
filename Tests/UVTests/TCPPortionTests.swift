import TestSupport
import Testing

import UV

@Suite(.timeLimit(.minutes(1))) struct TCPPortionTests {
  @Test(arguments: Place.allCases)
  func exactReadGathersBytesThatComeOneByOne(_ place: Place) async throws {
    try await withConnectedStreams(place) { near, far in
      let writer = Task {
        for offset in 0..<100 {
          try await far.write(Pattern.bytes(offset..<offset + 1))
          try await far.loop.someTurns()
        }
      }
      for offset in stride(from: 0, to: 100, by: 10) {
        #expect(try await near.read(exactly: 10) == Pattern.bytes(offset..<offset + 10))
      }
      try await writer.value
    }
  }

  @Test(arguments: Place.allCases, [1, 65_535, 65_536, 65_537, 1_048_576, 16_777_216])
  func exactReadMayBeOfMoreThanIsReadAhead(_ place: Place, _ count: Int) async throws {
    try await withConnectedStreams(place) { near, far in
      let writer = Task {
        try await far.write(Pattern.bytes(3 * count))
        try await far.shutdownSending()
      }
      for round in 0..<3 {
        let bytes = try await near.read(exactly: count) ?? []
        #expect(bytes.count == count)
        #expect(Pattern.matches(bytes, at: round * count))
      }
      #expect(try await near.read(exactly: count) == nil)
      try await writer.value
    }
  }

  /// Reading has paused, with as much ahead as may be, and must go on for a reader who wants more.
  @Test(arguments: Place.allCases)
  func exactReadGetsMoreThanWasReadAheadBefore(_ place: Place) async throws {
    let count = 4_194_304
    try await withConnectedStreams(place) { near, far in
      let writer = Task { try await far.write(Pattern.bytes(count)) }
      #expect(try await near.read(exactly: 1) == Pattern.bytes(1))
      for _ in 0..<20 { try await near.loop.someTurns() }
      let bytes = try await near.read(exactly: count - 1) ?? []
      #expect(bytes.count == count - 1)
      #expect(Pattern.matches(bytes, at: 1))
      try await writer.value
    }
  }

  @Test func readOfNoBytesNeedsNone() async throws {
    try await withConnectedStreams { near, far in
      #expect(try await near.read(exactly: 0) == [])
      try await far.write("x")
      #expect(try await near.read(exactly: 0) == [])
      #expect(try await near.read(exactly: 1) == [UInt8(ascii: "x")])
    }
  }

  @Test(arguments: Place.allCases)
  func exactReadIsNilAtTheEnd(_ place: Place) async throws {
    try await withConnectedStreams(place) { near, far in
      let waiting = Task(executorPreference: near.loop) { try await near.read(exactly: 4) }
      try await near.loop.someTurns()
      try await far.shutdownSending()
      #expect(try await waiting.value == nil)
      for _ in 0..<3 { #expect(try await near.read(exactly: 4) == nil) }
      #expect(try await near.read() == nil)
    }
  }

  /// The peer has not ended it, so what has come is no line.
  @Test(arguments: Place.allCases, [false, true])
  func whatIsNotWholeWhenThisSideEndsTheInputIsNoPortion(_ place: Place, _ isLine: Bool)
    async throws
  {
    try await withConnectedStreams(place) { near, far in
      let waiting = Task {
        isLine ? try await near.read(until: UInt8(ascii: "\n")) : try await near.read(exactly: 10)
      }
      try await far.write("half")
      for _ in 0..<5 { try await near.loop.someTurns() }
      near.shutdownReceiving()
      let error = IncompleteRead(subject: "\(near.peerAddress!)", expected: 10, available: 4)
      if isLine {
        #expect(try await waiting.value == nil)
      } else {
        await #expect(throws: error) { try await waiting.value }
      }
      #expect(try await near.read(exactly: 4) == nil)
      #expect(try await near.readLine() == nil)
      #expect(try await near.read() == nil)
    }
  }

  @Test(arguments: Place.allCases, [false, true])
  func endInTheMiddleLeavesTheBytesToOtherReads(_ place: Place, _ waits: Bool) async throws {
    try await withConnectedStreams(place) { near, far in
      let waiting = waits ? Task { try await near.read(exactly: 10) } : nil
      try await near.loop.someTurns()
      try await far.write(Pattern.bytes(7))
      try await near.loop.someTurns()
      try await far.shutdownSending()
      let error = IncompleteRead(
        subject: "\(near.peerAddress!)", expected: 10, available: 7)
      if let waiting { await #expect(throws: error) { try await waiting.value } }
      for _ in 0..<3 { await #expect(throws: error) { try await near.read(exactly: 10) } }
      #expect(try await near.read(exactly: 4) == Pattern.bytes(4))
      await #expect(throws: IncompleteRead(subject: error.subject, expected: 4, available: 3)) {
        try await near.read(exactly: 4)
      }
      #expect(try await near.read() == Pattern.bytes(4..<7))
      #expect(try await near.read(exactly: 4) == nil)
    }
  }

  @Test(arguments: Place.allCases)
  func exactReadCancelledInTheMiddleLosesNoBytes(_ place: Place) async throws {
    for count in [100, 500_000] {
      try await withConnectedStreams(place) { near, far in
        let waiting = Task(executorPreference: near.loop) { try await near.read(exactly: count) }
        let writer = Task { try await far.write(Pattern.bytes(count - 1)) }
        for _ in 0..<5 { try await near.loop.someTurns() }
        waiting.cancel()
        await #expect(throws: CancellationError.self) { try await waiting.value }
        #expect(try await near.readPattern(10) == 10)
        try await far.write(Pattern.bytes(count - 1..<count))
        let rest = try await near.read(exactly: count - 10) ?? []
        #expect(rest.count == count - 10 && Pattern.matches(rest, at: 10))
        try await writer.value
      }
    }
  }

  @Test(arguments: Place.allCases)
  func portionOfACancelledTaskIsNotLost(_ place: Place) async throws {
    try await withConnectedStreams(place) { near, far in
      try await far.write("line\n")
      for _ in 0..<100 {
        let cancelled = Task { try await near.read(exactly: 6) }
        cancelled.cancel()
        await #expect(throws: CancellationError.self) { try await cancelled.value }
      }
      #expect(try await near.readLine() == "line")
    }
  }

  /// Whichever comes first, the read ends once, and each byte is read once.
  @Test(arguments: Place.allCases)
  func cancellingAPortionAsItArrivesLosesNoBytes(_ place: Place) async throws {
    try await withConnectedStreams(place) { near, far in
      let line = Array("1234567\n".utf8)
      var received = 0
      var cancelled = 0
      for round in 0..<2_000 {
        let reading = Task {
          round % 3 == 0
            ? try await near.read(until: UInt8(ascii: "\n")) : try await near.read(exactly: 8)
        }
        let canceller = Task {
          for _ in 0..<round % 4 { await Task.yield() }
          reading.cancel()
        }
        try await far.write(line.prefix(round % 8))
        try await far.write(line.dropFirst(round % 8))
        do {
          #expect(try await reading.value == line)
        } catch is CancellationError {
          cancelled += 1
          #expect(try await near.read(exactly: 8) == line)
        }
        received += 8
        await canceller.value
      }
      try await far.shutdownSending()
      #expect(try await near.read() == nil)
      #expect(received == 16_000)
    }
  }

  @Test(arguments: Place.allCases)
  func secondReaderIsRefusedAndThePortionUndisturbed(_ place: Place) async throws {
    try await withConnectedStreams(place) { near, far in
      let first = Task(executorPreference: near.loop) { try await near.read(exactly: 10) }
      try await near.loop.someTurns()
      for range in [0..<4, 4..<10] {
        await #expect(throws: ConcurrentRead.self) { try await near.read(exactly: 2) }
        await #expect(throws: ConcurrentRead.self) { try await near.read(until: 0) }
        await #expect(throws: ConcurrentRead.self) { try await near.readLine() }
        await #expect(throws: ConcurrentRead.self) { try await near.read() }
        try await far.write(Pattern.bytes(range))
        try await near.loop.someTurns()
      }
      #expect(try await first.value == Pattern.bytes(10))
    }
  }

  @Test(arguments: Place.allCases)
  func resetFailsAWaitingPortionAndWhatHasComeCanBeRead(_ place: Place) async throws {
    try await withConnectedStreams(place) { near, far in
      let reset = IOError(.connectionReset, "read", "\(near.peerAddress!)")
      let waiting = Task(executorPreference: near.loop) { try await near.read(exactly: 10) }
      try await near.loop.someTurns()
      try await far.write(Pattern.bytes(3))
      try await near.loop.someTurns()
      far.abort()
      await #expect(throws: reset) { try await waiting.value }
      await #expect(throws: reset) { try await near.read(exactly: 10) }
      await #expect(throws: reset) { try await near.readLine() }
      #expect(try await near.read(exactly: 2) == Pattern.bytes(2))
      #expect(try await near.read() == Pattern.bytes(2..<3))
      await #expect(throws: reset) { try await near.read(exactly: 1) }
    }
  }

  @Test(arguments: Place.allCases)
  func closeEndsAWaitingPortion(_ place: Place) async throws {
    for isAborted in [false, true] {
      try await withConnectedStreams(place) { near, far in
        let waiting = Task(executorPreference: near.loop) { try await near.read(exactly: 10) }
        try await near.loop.someTurns()
        try await far.write("x")
        try await near.loop.someTurns()
        if isAborted { near.abort() } else { await near.close() }
        await #expect(throws: StreamClosed("read")) { try await waiting.value }
        await #expect(throws: StreamClosed("read")) { try await near.read(exactly: 10) }
        await #expect(throws: StreamClosed("read")) { try await near.readLine() }
      }
    }
  }

  @Test(arguments: Place.allCases)
  func readsOfEveryKindKeepTheOrderOfBytes(_ place: Place) async throws {
    let count = 4_000_000
    try await withConnectedStreams(place) { near, far in
      let writer = Task {
        var numbers = SeededNumbers(seed: 1)
        var sent = 0
        while sent < count {
          let size = min(count - sent, Int.random(in: 1...100_000, using: &numbers))
          try await far.write(Pattern.bytes(sent..<sent + size))
          sent += size
        }
        try await far.shutdownSending()
      }
      var numbers = SeededNumbers(seed: 2)
      var received = 0
      while let bytes = try await readSomehow(near, &numbers) {
        guard Pattern.matches(bytes, at: received) else {
          Issue.record("wrong bytes at \(received)")
          break
        }
        received += bytes.count
      }
      #expect(received == count)
      try await writer.value
    }
  }
}

private func readSomehow(
  _ stream: TCPStream, _ numbers: inout SeededNumbers
) async throws -> [UInt8]? {
  let size = Int.random(in: 1...20_000, using: &numbers)
  switch Int.random(in: 0..<4, using: &numbers) {
  case 0: return try await stream.read(upTo: size)
  case 1:
    return try await withMemory(size) { memory in
      try await stream.read(into: memory).map { Array(memory.prefix($0)) }
    }
  case 2:
    do {
      return try await stream.read(exactly: size)
    } catch let error as IncompleteRead {
      return try await stream.read(upTo: error.available)
    }
  default:
    do {
      return try await stream.read(until: UInt8(size & 0xFF), upTo: 1 + size / 10)
    } catch let error as LineTooLong {
      return try await stream.read(upTo: error.limit)
    }
  }
}
