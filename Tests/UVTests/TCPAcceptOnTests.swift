import TestSupport
import Testing
import UV

/// Streams whose loop is not the listener's.
@Suite(.timeLimit(.minutes(1))) struct TCPAcceptOnTests {
  @Test(arguments: Place.allCases)
  func acceptedStreamLivesOnTheLoopThatWasAskedFor(_ place: Place) async throws {
    try await withGroup(of: 2) { group in
      let (home, other) = (group.loops[0], group.loops[1])
      let listener = try TCPListener(on: .loopback(port: 0), loop: home)
      try await place.run(home) {
        for _ in 0..<50 {
          async let accepting = listener.accept(on: other)
          let near = try await TCPStream.connect(to: listener.localAddress, loop: home)
          let far = try await accepting
          #expect(far.loop === other)
          #expect(far.peerAddress == near.localAddress)
          let handles = other.statistics.handles
          #expect(handles >= 1)
          async let answer: Void = echo(far)
          try await near.expectEcho()
          await near.close()
          try await answer
          await far.close()
        }
      }
      await listener.close()
    }
  }

  @Test func loopThatWasShutDownIsNotAcceptedOn() async throws {
    try await withGroup(of: 2) { group in
      let (home, other) = (group.loops[0], group.loops[1])
      await other.shutdown()
      let listener = try TCPListener(on: .loopback(port: 0), loop: home)
      for _ in 0..<10 {
        let accepting = Task { try await listener.accept(on: other) }
        let near = try await TCPStream.connect(to: listener.localAddress, loop: home)
        await #expect(throws: EventLoopClosed.self) { try await accepting.value }
        #expect(try await near.read() == nil)
        near.abort()
      }
      // The listener is none the worse for it.
      async let accepting = listener.accept()
      let near = try await TCPStream.connect(to: listener.localAddress, loop: home)
      let far = try await accepting
      near.abort()
      far.abort()
      await listener.close()
    }
  }

  @Test func cancelledAcceptOnAnotherLoopLosesNoClient() async throws {
    try await withGroup(of: 2) { group in
      let (home, other) = (group.loops[0], group.loops[1])
      let listener = try TCPListener(on: .loopback(port: 0), loop: home)
      for round in 0..<500 {
        let accepting = Task { try await listener.accept(on: other) }
        let canceller = Task {
          for _ in 0..<round % 5 { await Task.yield() }
          accepting.cancel()
        }
        let near = try await TCPStream.connect(to: listener.localAddress, loop: home)
        var accepted: TCPStream?
        do { accepted = try await accepting.value } catch is CancellationError {}
        await canceller.value
        let far: TCPStream
        if let accepted { far = accepted } else { far = try await listener.accept(on: other) }
        #expect(far.peerAddress == near.localAddress)
        near.abort()
        far.abort()
      }
      await listener.close()
    }
  }

  @Test func streamsOnOtherLoopsCountAsConnections() async throws {
    try await withGroup(of: 2) { group in
      var options = TCPListener.Options()
      options.maxConnections = 2
      let listener = try TCPListener(on: .loopback(port: 0), options: options, loop: group.loops[0])
      let accepted = Collected<TCPStream>()
      let server = Task {
        for _ in 0..<6 { accepted.append(try await listener.accept(on: group.loops[1])) }
      }
      var clients: [TCPStream] = []
      for _ in 0..<6 {
        clients.append(try await TCPStream.connect(to: listener.localAddress, loop: group.loops[0]))
      }
      for open in 0..<4 {
        await accepted.waitUntil(count: open + 2)
        for loop in group.loops { try await loop.someTurns() }
        #expect(accepted.count == open + 2)
        accepted.values[open].abort()
      }
      await accepted.waitUntil(count: 6)
      try await server.value
      for stream in clients + accepted.values { stream.abort() }
      await listener.close()
    }
  }
}
