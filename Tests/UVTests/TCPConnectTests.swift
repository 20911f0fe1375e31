import TestSupport
import Testing
import UV

@Suite(.timeLimit(.minutes(1))) struct TCPConnectTests {
  @Test(arguments: Place.allCases)
  func refusedConnectThrows(_ place: Place) async throws {
    try await withLoop { loop in
      try await RawSocket.withBoundPort { _, port in
        try await place.run(loop) {
          await #expect(throws: IOError(.connectionRefused, "connect", "127.0.0.1:\(port)")) {
            try await TCPStream.connect(to: .loopback(port: port), loop: loop)
          }
          await #expect(throws: IOError(.connectionRefused, "connect", "127.0.0.1:\(port)")) {
            try await TCPStream.connect(to: "127.0.0.1", port: port, loop: loop)
          }
        }
      }
      await expectNothingLeft(on: loop)
    }
  }

  /// The system refuses the call itself, so libuv never calls back.
  @Test(arguments: Place.allCases)
  func unreachableNetworkThrows(_ place: Place) async throws {
    try await withLoop { loop in
      let broadcast = try SocketAddress("255.255.255.255:9")
      try await place.run(loop) {
        await #expect(throws: IOError(.networkUnreachable, "connect", "255.255.255.255:9")) {
          try await TCPStream.connect(to: broadcast, loop: loop)
        }
      }
      await expectNothingLeft(on: loop)
    }
  }

  @Test func portZeroCannotBeConnectedTo() async throws {
    try await withLoop { loop in
      await #expect(throws: IOError.self) {
        try await TCPStream.connect(to: .loopback(port: 0), loop: loop)
      }
      await expectNothingLeft(on: loop)
    }
  }

  @Test func connectTimesOutWhenTheQueueOfTheListenerIsFull() async throws {
    try await withLoop { loop in
      try await withFullListener(loop) { address in
        await #expect(throws: IOError(.timedOut, "connect", "\(address)")) {
          try await TCPStream.connect(to: address, timeout: .milliseconds(20), loop: loop)
        }
        await #expect(throws: IOError(.timedOut, "connect", "\(address)")) {
          try await TCPStream.connect(to: address, timeout: .zero, loop: loop)
        }
      }
      await expectNothingLeft(on: loop)
    }
  }

  @Test func cancelledConnectEndsAtOnce() async throws {
    try await withLoop { loop in
      try await withFullListener(loop) { address in
        for isLate in [false, true] {
          let connecting = Task {
            try await TCPStream.connect(to: address, timeout: nil, loop: loop)
          }
          // The listener's handle, and then that of the attempt.
          if isLate { await eventually("it connects") { loop.statistics.handles == 2 } }
          connecting.cancel()
          await #expect(throws: CancellationError.self) { try await connecting.value }
        }
      }
      await expectNothingLeft(on: loop)
    }
  }

  @Test(arguments: [Duration.zero, .seconds(1_000)])
  func connectEndsWhenItsLoopShutsDown(_ gracePeriod: Duration) async throws {
    try await withLoop { other in
      try await withFullListener(other) { address in
        try await withLoop { loop in
          let connecting = Task {
            try await TCPStream.connect(to: address, timeout: nil, loop: loop)
          }
          await eventually("it connects") { loop.statistics.handles == 1 }
          await loop.shutdown(gracePeriod: gracePeriod)
          await #expect(throws: EventLoopClosed.self) { try await connecting.value }
          await #expect(throws: EventLoopClosed.self) {
            try await TCPStream.connect(to: address, loop: loop)
          }
        }
      }
    }
  }

  @Test(arguments: ["127.0.0.1", "::1"])
  func localhostIsFoundOnTheOneFamilyThatListens(_ host: String) async throws {
    try await withLoop { loop in
      let address = try SocketAddress(host, port: 0)
      // Not every system gives `localhost` both families.
      let known = try await loop.resolve("localhost", port: 0)
      guard known.contains(address) else { return }
      try await TCPListener.withListener(on: address, loop: loop) { listener in
        let stream = try await TCPStream.connect(
          to: "localhost", port: listener.localAddress.port, loop: loop)
        #expect(stream.peerAddress == listener.localAddress)
        stream.abort()
      }
      await expectNothingLeft(on: loop)
    }
  }

  @Test func refusedHostIsNamedInTheError() async throws {
    try await withLoop { loop in
      try await RawSocket.withBoundPort { _, port in
        await #expect(throws: IOError(.connectionRefused, "connect", "localhost:\(port)")) {
          try await TCPStream.connect(to: "localhost", port: port, loop: loop)
        }
      }
      await expectNothingLeft(on: loop)
    }
  }

  @Test func unknownHostThrows() async throws {
    try await withLoop { loop in
      await #expect(throws: IOError.self) {
        try await TCPStream.connect(to: "no-such-host.invalid", port: 80, loop: loop)
      }
      await expectNothingLeft(on: loop)
    }
  }

  @Test(arguments: [
    ("localhost", -1), ("localhost", 65_536), ("localhost", Int.max), ("127.0.0.1", 70_000),
    ("", 80), (String(repeating: "x", count: 300), 80), ("a\0b", 80),
  ])
  func whatCannotBeAHostOrPortIsRefusedWithoutTrying(_ host: String, _ port: Int) async throws {
    try await withLoop { loop in
      await #expect(throws: AddressError.self) {
        try await TCPStream.connect(to: host, port: port, loop: loop)
      }
      #expect(loop.statistics.requests == 0)
      await expectNothingLeft(on: loop)
    }
  }

  @Test(arguments: [
    ("", ""), ("4a", "4a"), ("4a 4b", "4a 4b"), ("6a 6b 4a 4b", "6a 4a 6b 4b"),
    ("4a 6a 6b 6c", "4a 6a 6b 6c"), ("6a 6b 6c 4a", "6a 4a 6b 6c"), ("6a 4a 6b", "6a 4a 6b"),
  ])
  func familiesTakeTurns(_ given: String, _ expected: String) throws {
    let order = try addresses(given).alternatingFamilies()
    #expect(order == (try addresses(expected)))
  }

  @Test(arguments: Place.allCases)
  func connectionIsClosedInOrderOrResetAfterItsScope(_ place: Place) async throws {
    struct Failure: Error {}
    try await withLoop { loop in
      try await TCPListener.withListener(on: .loopback(port: 0), loop: loop) { listener in
        let port = listener.localAddress.port
        try await place.run(loop) {
          async let accepted = listener.accept()
          let value = try await TCPStream.withConnection(
            to: "127.0.0.1", port: port, loop: loop
          ) { stream in
            try await stream.write("answer")
            return 42
          }
          #expect(value == 42)
          let far = try await accepted
          #expect(try await far.read() == Array("answer".utf8))
          #expect(try await far.read() == nil)
          await far.close()

          async let other = listener.accept()
          await #expect(throws: Failure.self) {
            try await TCPStream.withConnection(to: listener.localAddress, loop: loop) { _ in
              throw Failure()
            }
          }
          let broken = try await other
          await #expect(throws: IOError(.connectionReset, "read", "\(broken.peerAddress!)")) {
            try await broken.read()
          }
          await broken.close()
        }
      }
      await expectNothingLeft(on: loop)
    }
  }

  @Test func bothEndsKnowTheirAddresses() async throws {
    try await withConnectedStreams { near, far in
      #expect(near.localAddress == far.peerAddress)
      #expect(near.peerAddress == far.localAddress)
      #expect(near.localAddress?.host == "127.0.0.1")
      #expect(near.localAddress?.port != 0)
      await near.close()
      #expect(near.localAddress == far.peerAddress)
    }
  }

  private func addresses(_ names: String) throws -> [SocketAddress] {
    try names.split(separator: " ").map { name in
      let number = name.last!.asciiValue! - UInt8(ascii: "a") + 1
      let host = name.first == "4" ? "10.0.0.\(number)" : "fd00::\(number)"
      return try SocketAddress(host, port: 1)
    }
  }
}

/// Runs `body` with the address of a listener that lets no more clients wait: whoever connects hears nothing.
private func withFullListener(
  _ loop: EventLoop, _ body: (SocketAddress) async throws -> Void
) async throws {
  var options = TCPListener.Options()
  options.backlog = 0
  try await TCPListener.withListener(on: .loopback(port: 0), options: options, loop: loop) {
    listener in
    // The system lets one more in than it was told.
    let client = RawSocket.connected(toPort: listener.localAddress.port)
    defer { RawSocket.reset(client) }
    try await body(listener.localAddress)
  }
}
