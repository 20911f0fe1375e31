import Glibc
import TestSupport
import Testing
import UV

@Suite(.timeLimit(.minutes(1))) struct TCPOptionsTests {
  @Test(arguments: Place.allCases)
  func bufferSizesAreSetAndToldAndBadOnesRefused(_ place: Place) async throws {
    try await withConnectedStreams(place) { (near, _) async throws in
      #expect(try await near.sendBufferSize(settingTo: 32_768) == 65_536)
      #expect(try await near.sendBufferSize() == 65_536)
      #expect(try await near.receiveBufferSize(settingTo: 32_768) == 65_536)
      #expect(try await near.receiveBufferSize() == 65_536)
      for size in [0, -1, Int.min] {
        await #expect(throws: IOError.self) { try await near.sendBufferSize(settingTo: size) }
        await #expect(throws: IOError.self) { try await near.receiveBufferSize(settingTo: size) }
      }
      // The system cuts what is too large.
      #expect(try await near.sendBufferSize(settingTo: .max) > 0)
    }
  }

  @Test func switchesCanBeTurnedOnAndOffUntilTheStreamIsClosed() async throws {
    try await withConnectedStreams { near, far in
      for isOn in [false, true, true] { try await near.setNoDelay(isOn) }
      for delay in [Duration.seconds(5), nil, .zero, .milliseconds(1), .seconds(1_000_000_000)] {
        try await near.setKeepAlive(delay)
      }
      await near.close()
      await #expect(throws: StreamClosed("set option")) { try await near.setNoDelay(true) }
      await #expect(throws: StreamClosed("set option")) { try await near.setKeepAlive(nil) }
      await #expect(throws: StreamClosed("set option")) { try await near.sendBufferSize() }
      far.abort()
      await #expect(throws: StreamClosed("set option")) { try await far.receiveBufferSize() }
    }
  }

  @Test func optionsHoldForBothEnds() async throws {
    var options = TCPOptions()
    options.sendBufferSize = 40_000
    options.receiveBufferSize = 50_000
    options.keepAlive = .milliseconds(1_500)
    try await withConnectedStreams(options: options) { (near, far) async throws in
      for stream in [near, far] {
        #expect(try await stream.sendBufferSize() == 80_000)
        #expect(try await stream.receiveBufferSize() == 100_000)
      }
    }
  }

  @Test(arguments: [0, -1, Int.min])
  func badBufferSizeFailsTheConnect(_ size: Int) async throws {
    try await withLoop { loop in
      try await TCPListener.withListener(on: .loopback(port: 0), loop: loop) { listener in
        var options = TCPOptions()
        options.receiveBufferSize = size
        await #expect(throws: IOError.self) {
          try await TCPStream.connect(to: listener.localAddress, options: options, loop: loop)
        }
        // The client that was let go of.
        let far = try await listener.accept()
        far.abort()
      }
      await expectNothingLeft(on: loop)
    }
  }
}
