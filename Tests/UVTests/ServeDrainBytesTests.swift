import TestSupport
import Testing
import UV

/// The end that a server's grace period has for idle clients must not take bytes away that have come.
@Suite(.timeLimit(.minutes(1))) struct ServeDrainBytesTests {
  /// A read that could end at once waits for the loop's next turn now and then, with bytes there.
  @Test func bytesThatAreReadOneByOneAreAllRead() async throws {
    let count = 60_000
    let (busy, goOn, received) = (Event(), Event(), Tally())
    var setup = ServerSetup { stream in
      _ = try await stream.read(exactly: 1)
      received.add()
      busy.set()
      await goOn.wait()
      while let byte = try await stream.read(upTo: 1) { received.add(byte.count) }
      try await stream.write("done")
    }
    setup.gracePeriod = .seconds(1_000)
    try await withServer(setup) { server in
      try await server.withClient { near in
        try await near.write(Pattern.bytes(count))
        await busy.wait()
        server.cancel()
        try await server.clients.sleep(for: .milliseconds(400))
        goOn.set()
        #expect(try await near.read(exactly: 4) == Array("done".utf8))
        #expect(received.value == count)
      }
      await server.expectCancelled()
    }
  }

  /// The handler asks for what came long ago, and before the loop has polled for it, it is time to look for idle clients.
  @Test func bytesThatTheSystemHasAreRead() async throws {
    for _ in 0..<5 {
      let (hasBegun, answer) = (Event(), Event())
      let (gate, opening) = AsyncStream.makeStream(of: Void.self)
      let request = Collected<[UInt8]?>()
      var setup = ServerSetup { stream in
        hasBegun.set()
        for await _ in gate { break }
        request.append(try await stream.read())
        answer.set()
      }
      setup.gracePeriod = .seconds(1_000)
      try await withServer(setup) { server in
        let loop = server.listener.loop
        let (far, trigger) = try await connectedPair(on: loop)
        // The bytes that come for this one make the loop's thread open the gate and be busy after the handler has asked.
        let opener = Task(executorPreference: loop) {
          _ = try await far.read()
          opening.yield()
          for _ in 0..<3 { await Task.yield() }
          keepBusy(for: .milliseconds(60))
        }
        try await server.withClient { near in
          try await near.write("request")
          await hasBegun.wait()
          server.cancel()
          try await server.clients.sleep(for: .milliseconds(400))
          try await trigger.write("x")
          await answer.wait()
          #expect(request.values == [Array("request".utf8)])
          try await opener.value
        }
        far.abort()
        trigger.abort()
        await server.expectCancelled()
      }
    }
  }
}
