import TestSupport
import Testing
import UV

@Suite(.timeLimit(.minutes(1))) struct TCPWriteTests {
  @Test(arguments: Place.allCases)
  func writesArriveInTheOrderOfTheirCalls(_ place: Place) async throws {
    try await withConnectedStreams(place) { near, far in
      let sizes = [1, 0, 70_000, 0, 0, 3, 300_000, 65_536, 0, 1, 2_000_000, 5]
      let writer = Task {
        var offset = 0
        for size in sizes {
          try await near.write(Pattern.bytes(offset..<offset + size))
          offset += size
        }
        try await near.write("")
        try await near.shutdownSending()
      }
      #expect(try await far.readPattern() == sizes.reduce(0, +))
      try await writer.value
    }
  }

  @Test func queuedWritesEndInOrderEmptyOnesIncluded() async throws {
    try await withConnectedStreams(options: .smallBuffers) { near, far in
      let (held, start) = try await near.fill()
      let sizes = [0, 5, 0, 200_000, 0, 0, 100_000, 1, 0]
      let ended = Collected<Int>()
      try await near.loop.run {
        var offset = start
        for (index, size) in sizes.enumerated() {
          near.core.write(Pattern.bytes(offset..<offset + size)) { result in
            if case .success = result { ended.append(index) }
          }
          offset += size
        }
      }
      #expect(ended.count == 0)
      #expect(near.bytesQueued >= sizes.reduce(0, +))
      let count = start + sizes.reduce(0, +)
      #expect(try await far.readPattern(count) == count)
      await ended.waitUntil(count: sizes.count)
      #expect(ended.values == Array(sizes.indices))
      #expect(near.bytesQueued == 0)
      try await held.value
    }
  }

  @Test func burstOfSmallWritesArrivesInOrder() async throws {
    let count = 100_000
    try await withConnectedStreams { near, far in
      let ended = Collected<Int>()
      let burst = Task {
        try await near.loop.run {
          for index in 0..<count {
            near.core.write(Pattern.bytes(index * 64..<(index + 1) * 64)) { _ in ended.append(index)
            }
          }
        }
      }
      #expect(try await far.readPattern(count * 64) == count * 64)
      try await burst.value
      await ended.waitUntil(count: count)
      #expect(ended.values == Array(0..<count))
    }
  }

  @Test(arguments: Place.allCases)
  func writeAfterTheEndIsRefused(_ place: Place) async throws {
    try await withConnectedStreams(place) { near, far in
      try await near.shutdownSending()
      await #expect(throws: StreamClosed("write")) { try await near.write("x") }
      await #expect(throws: StreamClosed("write")) { try await near.write("") }
      await near.close()
      await #expect(throws: StreamClosed("write")) { try await near.write("x") }
      far.abort()
      await #expect(throws: StreamClosed("write")) { try await far.write("x") }
    }
  }

  @Test(arguments: Place.allCases)
  func peerThatResetsFailsTheWriteAndNotTheProcess(_ place: Place) async throws {
    try await withConnectedStreams(place) { (near, far) async throws in
      let bytes = Pattern.bytes(16_777_216)
      let writer = Task { while true { try await near.write(bytes) } }
      #expect(try await far.readPattern(1_000_000) == 1_000_000)
      far.abort()
      await #expect(throws: IOError.self) { try await writer.value }
      await #expect(throws: IOError.self) { try await near.write("x") }
      #expect(near.bytesQueued == 0)
    }
  }

  @Test(arguments: [false, true])
  func pendingWritesEndOnceAndBeforeTheCloseDoes(_ isAborted: Bool) async throws {
    try await withConnectedStreams(options: .smallBuffers) { near, far in
      let (held, start) = try await near.fill()
      let log = Collected<String>()
      try await near.loop.run {
        for index in 0..<100 {
          near.core.write(Pattern.bytes(start..<start + 10_000)) { result in
            switch result {
            case .success: log.append("\(index) sent")
            case .failure(let error): log.append("\(index) \(error)")
            }
          }
        }
        near.core.close(timeout: isAborted ? .seconds(1_000) : .milliseconds(20)) {
          log.append("closed")
        }
        if isAborted { near.core.abort() }
      }
      await log.waitUntil(count: 101)
      let reason: any Error =
        isAborted
        ? StreamClosed("write") : IOError(.timedOut, "close", "\(near.peerAddress!)")
      #expect(log.values == (0..<100).map { "\($0) \(reason)" } + ["closed"])
      await #expect(throws: (any Error).self) { try await held.value }
      await #expect(throws: IOError(.connectionReset, "read", "\(far.peerAddress!)")) {
        try await far.readPattern()
      }
    }
  }

  @Test func cancelledWriteThatIsPartlySentBreaksTheStream() async throws {
    try await withConnectedStreams(options: .smallBuffers) { near, far in
      let count = 16_777_216
      let writer = Task { try await near.write(Pattern.bytes(count)) }
      await eventually("a part is sent") { 0 < near.bytesQueued && near.bytesQueued < count }
      let next = Task { try await near.write("must not follow") }
      try await near.loop.someTurns()
      writer.cancel()
      await #expect(throws: CancellationError.self) { try await writer.value }
      await #expect(throws: StreamClosed("write")) { try await next.value }
      await #expect(throws: StreamClosed("write")) { try await near.write("must not follow") }
      await #expect(throws: StreamClosed.self) { try await near.shutdownSending() }
      await near.close()
      // The peer must not take the part for all.
      await #expect(throws: IOError(.connectionReset, "read", "\(far.peerAddress!)")) {
        try await far.readPattern()
      }
    }
  }

  @Test func cancelledWriteThatWaitsIsTakenOut() async throws {
    try await withConnectedStreams(options: .smallBuffers) { near, far in
      let (held, start) = try await near.fill()
      var tasks: [Task<Void, any Error>] = []
      for index in 0..<10 {
        let bytes =
          index % 2 == 0
          ? Pattern.bytes(start + index * 500..<start + (index + 2) * 500)
          : Array("never".utf8)
        let queued = near.bytesQueued
        tasks.append(Task { try await near.write(bytes) })
        await eventually("it waits") { near.bytesQueued == queued + bytes.count }
      }
      for index in stride(from: 1, to: 10, by: 2) {
        tasks[index].cancel()
        await #expect(throws: CancellationError.self) { try await tasks[index].value }
      }
      #expect(try await far.readPattern(start + 5_000) == start + 5_000)
      for index in stride(from: 0, to: 10, by: 2) { try await tasks[index].value }
      try await held.value
      try await near.shutdownSending()
      #expect(try await far.read() == nil)
    }
  }

  /// libuv has its bytes and cannot give them back, so they arrive; but the task must not wait for a peer that does not read.
  @Test func cancelledWriteThatIsUnderWayEndsAndStaysWhole() async throws {
    try await withConnectedStreams(options: .smallBuffers) { near, far in
      let (held, start) = try await near.fill()
      held.cancel()
      await #expect(throws: CancellationError.self) { try await held.value }
      let next = Task { try await near.write(Pattern.bytes(start..<start + 1_000)) }
      #expect(try await far.readPattern(start + 1_000) == start + 1_000)
      try await next.value
      try await near.shutdownSending()
      #expect(try await far.read() == nil)
    }
  }

  @Test(arguments: Place.allCases)
  func cancelRacesLeaveOnlyWholeWrites(_ place: Place) async throws {
    try await withConnectedStreams(place, options: .smallBuffers) { near, far in
      let message = 3_000
      let reader = Task {
        var received: [UInt8] = []
        while let bytes = try await far.read() { received += bytes }
        return received
      }
      var ended = 0
      for index in 0..<300 {
        let writer = Task {
          try await near.write(Array(repeating: UInt8(truncatingIfNeeded: index), count: message))
        }
        let canceller = Task { writer.cancel() }
        do {
          try await writer.value
          ended += 1
        } catch is CancellationError {}
        await canceller.value
      }
      // A stream that is broken by a part of a write says so; then there is a part and no more.
      do { try await near.shutdownSending() } catch is StreamClosed { near.abort() }
      guard let received = try? await reader.value else { return }
      #expect(received.count % message == 0)
      #expect(received.count / message >= ended)
      for start in stride(from: 0, to: received.count, by: message) {
        let part = received[start..<start + message]
        #expect(part.allSatisfy { $0 == part.first })
      }
    }
  }

  @Test func messagesOfManyThreadsStayWholeAndInOrder() async throws {
    let threads = 16
    let messages = 300
    try await withConnectedStreams { near, far in
      let loops = try (0..<threads).map { _ in try EventLoop() }
      try await withThrowingTaskGroup { group in
        for (index, loop) in loops.enumerated() {
          group.addTask(executorPreference: loop) {
            for number in 0..<messages {
              try await near.write(
                [UInt8(index), UInt8(number & 255), UInt8(number >> 8)]
                  + Array(repeating: UInt8(index), count: 97))
            }
          }
        }
        group.addTask {
          var next = Array(repeating: 0, count: threads)
          for _ in 0..<threads * messages {
            let message = try await far.read(exactly: 100) ?? []
            let index = Int(message[0])
            #expect(Int(message[1]) + Int(message[2]) << 8 == next[index])
            #expect(message[3...].allSatisfy { $0 == message[0] })
            next[index] += 1
          }
          #expect(next == Array(repeating: messages, count: threads))
        }
        try await group.waitForAll()
      }
      for loop in loops { await loop.shutdown() }
    }
  }

  @Test func finishedWritesAreNotKeptWhileOthersWait() async throws {
    try await withConnectedStreams(options: .smallBuffers) { near, far in
      let (held, start) = try await near.fill()
      let ended = Collected<Bool>()
      let first = WeakSink()
      try await near.loop.run {
        let sink = Sink<Void> { _ in ended.append(true) }
        first.sink = sink
        near.core.write(
          Pattern.bytes(start..<start + 1_000), ticket: near.core.nextTicket(), for: sink)
        near.core.write(Pattern.bytes(start + 1_000..<start + 4_000_000)) { _ in }
      }
      #expect(try await far.readPattern(start + 100_000) == start + 100_000)
      await ended.waitUntil(count: 1)
      #expect(near.bytesQueued > 0)
      await eventually("the first write is forgotten") { first.sink == nil }
      try await held.value
    }
  }

  @Test func completionMayCallAnything() async throws {
    try await withConnectedStreams(options: .smallBuffers) { near, far in
      let (held, start) = try await near.fill()
      let log = Collected<String>()
      try await near.loop.run {
        let core = near.core
        core.write(Pattern.bytes(start..<start + 10)) { _ in
          log.append("first")
          core.write(Pattern.bytes(start + 20..<start + 30)) { _ in
            log.append("third")
            core.shutdownSending { _ in log.append("shut down") }
          }
        }
        core.write(Pattern.bytes(start + 10..<start + 20)) { _ in log.append("second") }
      }
      #expect(try await far.readPattern() == start + 30)
      await log.waitUntil(count: 4)
      #expect(log.values == ["first", "second", "third", "shut down"])
      try await held.value
    }
  }

  @Test func chainOfCompletionsDoesNotGrowTheStack() async throws {
    try await withConnectedStreams { near, far in
      let done = Collected<Void>()
      let reader = Task { try await far.readPattern(200_000) }
      try await near.loop.run { writeNext(near.core, 0, until: 200_000, done) }
      await done.waitUntil(count: 1)
      #expect(try await reader.value == 200_000)
    }
  }
}

@Sendable private func writeNext(
  _ core: StreamCore, _ offset: Int, until end: Int, _ done: Collected<Void>
) {
  guard offset < end else { return done.append(()) }
  core.write(Pattern.bytes(offset..<offset + 2)) { _ in
    writeNext(core, offset + 2, until: end, done)
  }
}

/// The loop thread writes it before the test reads it.
private final class WeakSink: @unchecked Sendable {
  weak var sink: Sink<Void>?
}
