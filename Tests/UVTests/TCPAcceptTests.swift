import Glibc
import Synchronization
import TestSupport
import Testing
import UV

@Suite(.timeLimit(.minutes(1))) struct TCPAcceptTests {
  @Test func waitersAreServedInTheirOrder() async throws {
    try await withLoop { loop in
      let listener = try TCPListener(on: .loopback(port: 0), loop: loop)
      let order = Collected<(waiter: Int, stream: TCPStream)>()
      try await loop.run {
        for waiter in 0..<20 {
          listener.core.accept(ticket: listener.nextTicket()) { result in
            if case .success(let core) = result {
              order.append((waiter, TCPStream(core, on: loop)))
            }
          }
        }
      }
      var ports: [Int?] = []
      for _ in 0..<20 {
        let near = try await TCPStream.connect(to: listener.localAddress, loop: loop)
        ports.append(near.localAddress?.port)
        near.abort()
      }
      await order.waitUntil(count: 20)
      #expect(order.values.map(\.waiter) == Array(0..<20))
      #expect(order.values.map(\.stream.peerAddress?.port) == ports)
      for entry in order.values { entry.stream.abort() }
      await listener.close()
      await expectNothingLeft(on: loop)
    }
  }

  @Test(arguments: Place.allCases)
  func cancelledAcceptLosesNoClient(_ place: Place) async throws {
    try await withLoop { loop in
      try await TCPListener.withListener(on: .loopback(port: 0), loop: loop) { listener in
        try await place.run(loop) {
          for round in 0..<200 {
            let accepting = Task { try await listener.accept() }
            let canceller = Task {
              if round % 2 == 0 { await Task.yield() }
              accepting.cancel()
            }
            let near = try await TCPStream.connect(to: listener.localAddress, loop: loop)
            var accepted: TCPStream?
            do { accepted = try await accepting.value } catch is CancellationError {}
            await canceller.value
            let far: TCPStream
            if let accepted { far = accepted } else { far = try await listener.accept() }
            #expect(far.peerAddress == near.localAddress)
            near.abort()
            far.abort()
          }
        }
      }
      await expectNothingLeft(on: loop)
    }
  }

  @Test(arguments: Place.allCases)
  func closeEndsThoseWhoWait(_ place: Place) async throws {
    try await withLoop { loop in
      let listener = try TCPListener(on: .loopback(port: 0), loop: loop)
      try await place.run(loop) {
        let waiters = (0..<5).map { _ in Task { try await listener.accept() } }
        try await loop.someTurns()
        async let other: Void = listener.close()
        await listener.close()
        await other
        for waiter in waiters {
          await #expect(throws: StreamClosed("accept")) { try await waiter.value }
        }
        await #expect(throws: StreamClosed("accept")) { try await listener.accept() }
        await listener.close()
      }
      await expectNothingLeft(on: loop)
    }
  }

  @Test func loopShutdownEndsThoseWhoWait() async throws {
    try await withLoop { loop in
      let listener = try TCPListener(on: .loopback(port: 0), loop: loop)
      let waiter = Task { try await listener.accept() }
      try await loop.someTurns()
      await loop.shutdown(gracePeriod: .seconds(1_000))
      await #expect(throws: EventLoopClosed.self) { try await waiter.value }
      await #expect(throws: EventLoopClosed.self) { try await listener.accept() }
      await listener.close()
    }
  }

  @Test func listenerClosedByACompletionOfItsOwnDeliversTheRest() async throws {
    try await withLoop { loop in
      let listener = try TCPListener(on: .loopback(port: 0), loop: loop)
      let log = Collected<String>()
      try await loop.run {
        for _ in 0..<3 {
          listener.core.accept(ticket: listener.nextTicket()) { result in
            switch result {
            case .success(let stream):
              stream.abort()
              listener.core.close { log.append("closed") }
              log.append("accepted")
            case .failure(let error): log.append("\(error)")
            }
          }
        }
      }
      let client = RawSocket.connected(toPort: listener.localAddress.port)
      await log.waitUntil(count: 4)
      let refused = "\(StreamClosed("accept"))"
      #expect(log.values == [refused, refused, "accepted", "closed"])
      RawSocket.reset(client)
      await expectNothingLeft(on: loop)
    }
  }

  @Test func fullListenerParksClientsUntilAStreamIsClosed() async throws {
    try await withLoop { loop in
      var options = TCPListener.Options()
      options.maxConnections = 2
      let listener = try TCPListener(on: .loopback(port: 0), options: options, loop: loop)
      let accepted = Collected<TCPStream>()
      let server = Task {
        for _ in 0..<6 { accepted.append(try await listener.accept()) }
      }
      var clients: [TCPStream] = []
      for _ in 0..<6 {
        clients.append(try await TCPStream.connect(to: listener.localAddress, loop: loop))
      }
      for open in 0..<4 {
        await accepted.waitUntil(count: open + 2)
        try await loop.someTurns()
        #expect(accepted.count == open + 2)
        accepted.values[open].abort()
      }
      await accepted.waitUntil(count: 6)
      #expect(accepted.values.map(\.peerAddress) == clients.map(\.localAddress))
      try await server.value
      for stream in clients + accepted.values { stream.abort() }
      await listener.close()
      await expectNothingLeft(on: loop)
    }
  }

  @Test func aFloodOfClientsLeavesOthersTheirTurns() async throws {
    try await withLoop { loop in
      let listener = try TCPListener(on: .loopback(port: 0), loop: loop)
      let clients = (0..<200).map { _ in
        RawSocket.connected(toPort: listener.localAddress.port)
      }
      let turns = Collected<Int>()
      @Sendable func acceptNext() {
        listener.core.accept(ticket: listener.nextTicket()) { result in
          guard case .success(let stream) = result else { return }
          stream.abort()
          turns.append(loop.statistics.iterations)
          acceptNext()
        }
      }
      try await loop.run { acceptNext() }
      await turns.waitUntil(count: clients.count)
      let perTurn = Dictionary(grouping: turns.values) { $0 }.values.map(\.count)
      #expect(perTurn.max()! <= 64)
      for client in clients { RawSocket.reset(client) }
      await listener.close()
      await expectNothingLeft(on: loop)
    }
  }

  @Test func clientThatIsGoneAlreadyDoesNotEndAccepting() async throws {
    try await withLoop { loop in
      try await TCPListener.withListener(on: .loopback(port: 0), loop: loop) { listener in
        for _ in 0..<20 {
          RawSocket.reset(RawSocket.connected(toPort: listener.localAddress.port))
          let near = try await TCPStream.connect(to: listener.localAddress, loop: loop)
          var far: TCPStream
          repeat {
            far = try await listener.accept()
            #expect(far.peerAddress != nil)
            if far.peerAddress != near.localAddress {
              await #expect(throws: IOError.self) { _ = try await far.read() }
            }
            far.abort()
          } while far.peerAddress != near.localAddress
          near.abort()
        }
      }
      await expectNothingLeft(on: loop)
    }
  }

  @Test func acceptedStreamsHaveTheirOptionsAndABadOneIsTold() async throws {
    try await withLoop { loop in
      var options = TCPListener.Options()
      options.stream.sendBufferSize = -1
      try await TCPListener.withListener(on: .loopback(port: 0), options: options, loop: loop) {
        listener in
        let near = try await TCPStream.connect(to: listener.localAddress, loop: loop)
        await #expect(throws: IOError(.invalidArgument, "set option")) {
          try await listener.accept()
        }
        #expect(try await near.read() == nil)
        near.abort()
      }
      await expectNothingLeft(on: loop)
    }
  }

  @Test func listenerOutlivesALackOfDescriptors() async throws {
    await #expect(processExitsWith: .success) {
      let reports = Collected<String>()
      Report.setHandler { reports.append($0) }
      try await withLoop { loop in
        let listener = try TCPListener(on: .loopback(port: 0), loop: loop)
        let (near, far) = try await connectedPair(on: loop)
        let clients = (0..<8).map { _ in RawSocket.connected(toPort: listener.localAddress.port) }
        await eventually("the pair's listener is closed") { loop.statistics.handles == 3 }

        // The waiting of this test uses the shared loop, which needs descriptors when it is made.
        #expect(!EventLoop.shared.isCurrent)
        let taken = takeAllDescriptors()
        let accepted = Collected<TCPStream>()
        let server = Task {
          while accepted.count < clients.count { accepted.append(try await listener.accept()) }
        }
        await reports.waitUntil(count: 1)
        try await near.write("still served")
        let answer = try await far.read()
        precondition(answer == Array("still served".utf8))
        // As many attempts to accept again fail meanwhile; the reports of the next ten seconds are left out.
        let ticks = Collected<Void>()
        try loop.schedule(every: .milliseconds(100)) { timer in
          ticks.append(())
          if ticks.count == 5 { timer.cancel() }
        }
        await ticks.waitUntil(count: 5)
        precondition(reports.count == 1 && reports.values[0].contains("EMFILE"))
        precondition(accepted.count == 0)

        for descriptor in taken { Glibc.close(descriptor) }
        try await server.value
        precondition(accepted.count == clients.count)
        for stream in accepted.values + [near, far] { stream.abort() }
        for client in clients { RawSocket.reset(client) }
        await listener.close()
        await expectNothingLeft(on: loop)
      }
    }
  }
}

/// Sets the limit so that few are left, and takes those. The test must be able to give back as many as it needs.
private func takeAllDescriptors() -> [CInt] {
  var limit = rlimit()
  getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
  limit.rlim_cur = rlim_t(descriptorNumbers().max()! + 30)  // They are numbers, not a count.
  setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
  var taken: [CInt] = []
  while case let descriptor = open("/dev/null", O_RDONLY), descriptor >= 0 {
    taken.append(descriptor)
  }
  return taken
}
