import Glibc
import TestSupport
import Testing
import UV

@Suite(.timeLimit(.minutes(1))) struct TCPListenTests {
  @Test(arguments: ["127.0.0.1", "0.0.0.0", "::1", "::"])
  func portZeroReportsTheRealOneAndClientsReachIt(_ host: String) async throws {
    try await withLoop { loop in
      let address = try SocketAddress(host, port: 0)
      try await TCPListener.withListener(on: address, loop: loop) { listener in
        #expect(listener.localAddress.host == host)
        #expect(listener.localAddress.port != 0)
        try await expectEcho(through: listener, at: host)
      }
      await expectNothingLeft(on: loop)
    }
  }

  @Test func usedPortIsRefusedAndAnotherOneWorks() async throws {
    try await withLoop { loop in
      try await TCPListener.withListener(on: .loopback(port: 0), loop: loop) { listener in
        let used = listener.localAddress
        let error = #expect(throws: IOError.self) { try TCPListener(on: used, loop: loop) }
        #expect(error?.code == .addressInUse)
        #expect(error?.subject == "\(used)")
        try await TCPListener.withListener(on: .loopback(port: 0), loop: loop) {
          try await expectEcho(through: $0, at: "127.0.0.1")
        }
      }
      await expectNothingLeft(on: loop)
    }
  }

  @Test(arguments: ["198.51.100.1", "2001:db8::1"])
  func addressOfAnotherMachineIsRefused(_ host: String) async throws {
    try await withLoop { loop in
      let address = try SocketAddress(host, port: 0)
      #expect(throws: IOError(.addressNotAvailable, "bind", "\(address)")) {
        try TCPListener(on: address, loop: loop)
      }
    }
  }

  @Test(arguments: [false, true])
  func unspecifiedIPv6AddressTakesIPv4ClientsUnlessToldNotTo(_ ipv6Only: Bool) async throws {
    try await withLoop { loop in
      var options = TCPListener.Options()
      options.ipv6Only = ipv6Only
      try await TCPListener.withListener(on: .any(port: 0), options: options, loop: loop) {
        listener in
        try await expectEcho(through: listener, at: "::1")
        if ipv6Only {
          await #expect(throws: IOError.self) {
            try await TCPStream.connect(
              to: .loopback(port: listener.localAddress.port), loop: loop)
          }
        } else {
          try await expectEcho(through: listener, at: "127.0.0.1")
        }
      }
      await expectNothingLeft(on: loop)
    }
  }

  @Test func severalListenersShareAPortThatAllOfThemAskedToShare() async throws {
    try await withLoop { loop in
      var options = TCPListener.Options()
      options.reusePort = true
      let first = try TCPListener(on: .loopback(port: 0), options: options, loop: loop)
      let second = try TCPListener(on: first.localAddress, options: options, loop: loop)
      #expect(second.localAddress == first.localAddress)
      #expect(throws: IOError.self) { try TCPListener(on: first.localAddress, loop: loop) }
      await first.close()
      try await expectEcho(through: second, at: "127.0.0.1")
      await second.close()
      await expectNothingLeft(on: loop)
    }
  }

  @Test func closedLoopTakesNoListener() async throws {
    let loop = try EventLoop()
    await loop.shutdown()
    #expect(throws: EventLoopClosed.self) { try TCPListener(on: .loopback(port: 0), loop: loop) }
  }

  @Test(arguments: [false, true])
  func serverRestartsOnItsPort(_ hasOpenConnections: Bool) async throws {
    try await withLoop { loop in
      let address = await freePort()
      var streams: [TCPStream] = []
      for _ in 0..<100 {
        let listener = try TCPListener(on: address, loop: loop)
        async let accepted = listener.accept()
        let near = try await TCPStream.connect(to: address, loop: loop)
        let far = try await accepted
        if hasOpenConnections { streams += [near, far] } else { await far.close() }
        await listener.close()
        near.abort()
      }
      for stream in streams { stream.abort() }
      await expectNothingLeft(on: loop)
    }
  }

  @Test func restartedLoopFindsItsPortFree() async throws {
    let address = await freePort()
    for _ in 0..<20 {
      try await withLoop { loop in
        let listener = try TCPListener(on: address, loop: loop)
        async let accepted = listener.accept()
        let near = try await TCPStream.connect(to: address, loop: loop)
        _ = try await accepted
        await loop.shutdown()
        near.abort()
      }
    }
  }

  @Test func droppedListenerFreesItsPort() async throws {
    try await withLoop { loop in
      let address = await freePort()
      _ = try TCPListener(on: address, loop: loop)
      // What was asked of the loop so far is done.
      try await loop.run {}
      await expectNothingLeft(on: loop)
      let next = try TCPListener(on: address, loop: loop)
      await next.close()
    }
  }

  // MARK: Adopting

  @Test func adoptedSocketAccepts() async throws {
    try await withLoop { loop in
      try await RawSocket.withBoundPort { descriptor, port in
        listen(descriptor, 16)
        let listener = try TCPListener(adopting: dup(descriptor), loop: loop)
        #expect(listener.localAddress == .loopback(port: port))
        try await expectEcho(through: listener, at: "127.0.0.1")
        await listener.close()
      }
      await expectNothingLeft(on: loop)
    }
  }

  @Test func whatDoesNotListenIsRefusedAndClosed() async throws {
    try await withLoop { loop in
      try await RawSocket.withBoundPort { descriptor, _ in
        let error = #expect(throws: IOError.self) {
          try TCPListener(adopting: dup(descriptor), loop: loop)
        }
        #expect(error?.code == .invalidArgument)
      }
      // The other end of the pipe learns of the close.
      var ends: [CInt] = [0, 0]
      pipe(&ends)
      #expect(throws: IOError.self) { try TCPListener(adopting: ends[1], loop: loop) }
      var byte: UInt8 = 0
      #expect(read(ends[0], &byte, 1) == 0)
      close(ends[0])
      await expectNothingLeft(on: loop)
    }
  }

  @Test func listeningSocketOfAnotherKindIsRefused() async throws {
    try await withLoop { loop in
      let local = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0)
      // An address of the family alone gets a free name.
      let family = sa_family_t(AF_UNIX)
      let status = withUnsafeBytes(of: family) {
        bind(
          local, $0.baseAddress!.assumingMemoryBound(to: sockaddr.self), socklen_t($0.count))
      }
      #expect(status == 0)
      #expect(listen(local, 1) == 0)
      #expect(throws: IOError(.invalidArgument, "listen")) {
        try TCPListener(adopting: local, loop: loop)
      }
    }
  }

  @Test(arguments: [-1, CInt.min, 1_000_000_000])
  func numberThatIsNoDescriptorIsRefused(_ number: CInt) async throws {
    try await withLoop { loop in
      #expect(throws: IOError(.badDescriptor, "listen", "descriptor \(number)")) {
        try TCPListener(adopting: number, loop: loop)
      }
      #expect(loop.statistics.handles == 0)
    }
  }

  @Test func aListenerThatIsClosedBeforeItsLoopHasSeenItFreesItsPort() async throws {
    try await withLoop { loop in
      try await loop.run {
        let listeners = Collected<TCPListener>()
        waitForAnotherThread {
          listeners.append(try! TCPListener(on: .loopback(port: 0), loop: loop))
        }
        let listener = listeners.values[0]
        let isClosed = Event()
        listener.core.close { isClosed.set() }
        #expect(isClosed.isSet)
        listeners.append(try TCPListener(on: listener.localAddress, loop: loop))
      }
      await expectNothingLeft(on: loop)
    }
  }

  /// One round trip of a client that connects to `host`.
  private func expectEcho(
    through listener: TCPListener, at host: String,
    sourceLocation: SourceLocation = #_sourceLocation
  ) async throws {
    async let accepted = listener.accept()
    let near = try await TCPStream.connect(
      to: host, port: listener.localAddress.port, loop: listener.loop)
    let far = try await accepted
    try await near.write("ping")
    #expect(try await far.read() == Array("ping".utf8), sourceLocation: sourceLocation)
    near.abort()
    far.abort()
  }
}

/// A port that nobody uses and that the system gives to nobody who asks for any: those begin at 32768.
private func freePort() async -> SocketAddress {
  while true {
    let address = SocketAddress.loopback(port: .random(in: 10_000..<32_000))
    if let listener = try? TCPListener(on: address) {
      await listener.close()
      return address
    }
  }
}
