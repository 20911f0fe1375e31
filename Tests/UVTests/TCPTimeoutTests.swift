import Glibc
import TestSupport
import Testing
import UV

@Suite(.timeLimit(.minutes(1))) struct TCPTimeoutTests {
  // MARK: Reading

  @Test(arguments: Place.allCases)
  func readThatTakesTooLongTimesOutAndTheStreamGoesOn(_ place: Place) async throws {
    try await withTimeouts(read: .milliseconds(60), place) { near, far in
      let timedOut = IOError(.timedOut, "read", "\(near.peerAddress!)")
      for kind in 0..<5 {
        try await expectNotEarly(.milliseconds(60)) {
          await #expect(throws: timedOut) { _ = try await read(near, kind) }
        }
        try await far.write("x\n")
        #expect(try await near.readLine() == "x")
      }
    }
  }

  /// The time is that of the whole read, however slowly its bytes drip in.
  @Test(arguments: Place.allCases)
  func portionThatTakesTooLongTimesOutAndLosesNoBytes(_ place: Place) async throws {
    try await withTimeouts(read: .milliseconds(100), place) { near, far in
      let sent = Tally()
      let writer = Task {
        while !Task.isCancelled {
          let offset = sent.value
          try await far.write(Pattern.bytes(offset..<offset + 1))
          sent.add()
          try await far.loop.sleep(for: .milliseconds(1))
        }
      }
      await eventually("bytes are on their way") { sent.value > 0 }
      for _ in 0..<3 {
        try await expectNotEarly(.milliseconds(100)) {
          await expectError(.timedOut) { _ = try await near.read(exactly: 1_000_000) }
        }
      }
      writer.cancel()
      _ = await writer.result
      try await far.shutdownSending()
      #expect(try await near.readPattern() >= sent.value)
    }
  }

  @Test(arguments: Place.allCases)
  func readTimeoutCountsFromTheReadAndNotFromTheOneBefore(_ place: Place) async throws {
    try await withTimeouts(read: .milliseconds(200), place) { near, far in
      for _ in 0..<3 {
        let writer = Task {
          try await far.loop.sleep(for: .milliseconds(100))
          try await far.write("x")
        }
        // It may time out on a machine that is busy; the byte is then the next read's.
        while (try? await near.read()) == nil {}
        try await writer.value
        try await expectNotEarly(.milliseconds(200)) {
          await expectError(.timedOut) { _ = try await near.read() }
        }
      }
    }
  }

  @Test func timeBetweenReadsDoesNotCount() async throws {
    try await withTimeouts(read: .milliseconds(50)) { near, far in
      try await far.write("ab")
      #expect(try await near.read(exactly: 1) == [UInt8(ascii: "a")])
      try await near.loop.sleep(for: .milliseconds(150))
      #expect(try await near.read(exactly: 1) == [UInt8(ascii: "b")])
      try await near.write("still open")
      #expect(try await far.read() == Array("still open".utf8))
    }
  }

  // MARK: Writing

  @Test(arguments: Place.allCases)
  func writeToAPeerThatDoesNotReadTimesOut(_ place: Place) async throws {
    try await withTimeouts(write: .milliseconds(300), place) { near, far in
      let timedOut = IOError(.timedOut, "write", "\(near.peerAddress!)")
      let second = Collected<Result<Void, any Error>>()
      try await expectNotEarly(.milliseconds(300)) {
        async let other: Void = {
          while near.bytesQueued == 0 { try await near.loop.someTurns() }
          let result = await Task { try await near.write("behind it") }.result
          second.append(result)
        }()
        await #expect(throws: timedOut) { try await near.write(Pattern.bytes(16_777_216)) }
        try await other
      }
      #expect(throws: timedOut) { try second.values[0].get() }
      await #expect(throws: timedOut) { try await near.write("x") }
      // The other direction is as before.
      try await far.write("answer")
      #expect(try await near.read() == Array("answer".utf8))
      await near.close()
      // What is missing must not pass for the end.
      await #expect(throws: IOError(.connectionReset, "read", "\(far.peerAddress!)")) {
        try await far.readPattern()
      }
    }
  }

  /// The system takes some KiB of the write several times a second, and a block of libuv's, 64 KiB, takes three seconds.
  @Test func writeThatMakesProgressDoesNotTimeOut() async throws {
    var options = TCPListener.Options()
    options.stream.writeTimeout = .milliseconds(2_500)
    options.stream.sendBufferSize = 4_096
    try await withLoop { loop in
      try await TCPListener.withListener(on: .loopback(port: 0), options: options, loop: loop) {
        listener in
        let client = RawSocket.connected(toPort: listener.localAddress.port, makeSlow)
        defer { RawSocket.reset(client) }
        let server = try await listener.accept()
        defer { server.abort() }
        let writer = Task { try await server.write(Pattern.bytes(1_048_576)) }
        await eventually("the writer waits") { server.bytesQueued > 0 }
        let begin = ContinuousClock.now
        while begin.duration(to: .now) < .seconds(4) {
          receive(client, 1_024)
          try await loop.sleep(for: .milliseconds(50))
        }
        writer.cancel()
        await #expect(throws: CancellationError.self) { try await writer.value }
      }
      await expectNothingLeft(on: loop)
    }
  }

  // MARK: Silence

  @Test(arguments: Place.allCases)
  func silentConnectionIsReset(_ place: Place) async throws {
    try await withTimeouts(idle: .milliseconds(100), place) { near, far in
      let timedOut = IOError(.timedOut, "wait for the peer", "\(near.peerAddress!)")
      await #expect(throws: timedOut) { try await near.read() }
      for _ in 0..<2 {
        await #expect(throws: timedOut) { try await near.read() }
        await #expect(throws: timedOut) { try await near.readLine() }
        await #expect(throws: timedOut) { try await near.write("x") }
        await #expect(throws: timedOut) { try await near.shutdownSending() }
      }
      await #expect(throws: IOError(.connectionReset, "read", "\(far.peerAddress!)")) {
        try await far.read()
      }
      await near.close()
      near.abort()
    }
  }

  @Test func silenceEndsAWriteThatWaits() async throws {
    try await withTimeouts(idle: .milliseconds(200)) { near, far in
      await expectError(.timedOut) { try await near.write(Pattern.bytes(16_777_216)) }
      await expectError(.connectionReset) { try await far.readPattern() }
    }
  }

  @Test(arguments: [true, false])
  func bytesInEitherDirectionPutTheEndOff(_ isInbound: Bool) async throws {
    try await withTimeouts(idle: .seconds(3)) { near, far in
      let start = ContinuousClock.now
      while start.duration(to: .now) < .milliseconds(3_500) {
        try await (isInbound ? far : near).write("x")
        #expect(try await (isInbound ? near : far).read() == [UInt8(ascii: "x")])
        try await near.loop.sleep(for: .milliseconds(50))
      }
      try await near.write("still open")
      #expect(try await far.read() == Array("still open".utf8))
    }
  }

  @Test(arguments: Place.allCases)
  func silenceIsNotOverEarly(_ place: Place) async throws {
    for _ in 0..<20 {
      try await withTimeouts(idle: .milliseconds(50), place) { near, far in
        let begin = ContinuousClock.now
        guard (try? await near.write("x")) != nil else { return }
        await expectError(.timedOut) { _ = try await near.read() }
        let elapsed = begin.duration(to: .now)
        #expect(elapsed >= .milliseconds(50))
      }
    }
  }

  /// libuv's clock is old when the loop has been busy.
  @Test func silenceIsCountedFromTheBytesAndNotFromTheLoopsTurn() async throws {
    try await withTimeouts(idle: .seconds(2)) { near, far in
      let begun = Task(executorPreference: near.loop) {
        keepBusy(for: .milliseconds(400))
        let begin = ContinuousClock.now
        try await near.write("x")
        return begin
      }
      let begin = try await begun.value
      await expectError(.timedOut) { _ = try await near.read() }
      let elapsed = begin.duration(to: .now)
      #expect(elapsed >= .seconds(2))
    }
  }
}

private func read(_ stream: TCPStream, _ kind: Int) async throws -> [UInt8]? {
  switch kind {
  case 0: return try await stream.read()
  case 1: return try await stream.read(exactly: 3)
  case 2: return try await stream.read(until: UInt8(ascii: "\n"))
  case 3: return try await stream.readLine().map { Array($0.utf8) }
  default:
    return try await withMemory(8) { memory in
      try await stream.read(into: memory).map { Array(memory.prefix($0)) }
    }
  }
}

/// Gives a socket that is to connect a small buffer and small packets, so that the other side can send a little at a time.
private func makeSlow(_ descriptor: CInt) {
  var (buffer, packet): (CInt, CInt) = (4_096, 1_000)
  setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &buffer, 4)
  setsockopt(descriptor, CInt(IPPROTO_TCP), TCP_MAXSEG, &packet, 4)
}

private func receive(_ descriptor: CInt, _ count: Int) {
  var bytes = [UInt8](repeating: 0, count: count)
  _ = recv(descriptor, &bytes, count, CInt(MSG_DONTWAIT))
}

private func expectNotEarly(
  _ time: Duration, sourceLocation: SourceLocation = #_sourceLocation,
  _ body: () async throws -> Void
) async throws {
  let begin = ContinuousClock.now
  try await body()
  let elapsed = begin.duration(to: .now)
  #expect(elapsed >= time, sourceLocation: sourceLocation)
}
