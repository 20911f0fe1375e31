import Foundation
import TestSupport
import Testing
import UV
import UVOperations

/// Operations that somebody else finishes while their request is under way: the request ends too.
@Suite(.timeLimit(.minutes(1))) struct FinishByHandTests {
  @Test func aReadThatIsFinishedByHandEatsNoBytes() async throws {
    try await withPair { pair in
      let read = ReadOperation(from: pair.near)
      read.start()
      try await pair.loop.run {}
      read.finish(returning: [9])
      #expect(try await read.value == [9])
      try await pair.loop.run {}
      try await pair.far.write("hello")
      #expect(try await pair.near.read() == Array("hello".utf8))
    }
  }

  @Test func anAcceptThatIsFinishedByHandLosesNoClient() async throws {
    try await withListener { listener in
      let accept = AcceptOperation(from: listener)
      accept.start()
      try await listener.loop.run {}
      accept.finish(throwing: Broken())
      #expect(await accept.thrown is Broken)
      let client = try await TCPStream.connect(to: listener.localAddress, loop: listener.loop)
      let taken = try await listener.accept()
      #expect(taken.peerAddress == client.localAddress)
      client.abort()
      taken.abort()
    }
  }

  @Test func aConnectThatIsFinishedByHandStops() async throws {
    try await withSilentAddress { address, loop in
      let silent = 2  // The listener and its only client.
      let connect = ConnectOperation(to: address, on: loop)
      connect.start()
      // And the attempt, and its time limit.
      await eventually("it connects") { loop.statistics.handles == silent + 2 }
      connect.finish(throwing: Broken())
      #expect(await connect.thrown is Broken)
      await eventually("it has stopped") { loop.statistics.handles == silent }
    }
  }

  @Test func aCloseThatIsFinishedByHandStillSendsEverything() async throws {
    try await withPair { pair in
      let write = WriteOperation(moreThanTheSystemTakes, to: pair.near)
      write.start()
      try await pair.loop.run {}
      let close = CloseOperation(pair.near)
      close.start()
      try await pair.loop.run {}
      close.finish()
      #expect(try await readAll(pair.far).count == moreThanTheSystemTakes.count)
      try await write.value
    }
  }

  @Test func finishingRightAfterTheStartStopsARequestThatIsStillOnItsWay() async throws {
    try await withPair { pair in
      for _ in 0..<200 {
        let read = ReadOperation(from: pair.near)
        read.start()
        read.finish(returning: nil)
        #expect(try await read.value == nil)
      }
      try await pair.loop.run {}
      try await pair.far.write("hello")
      #expect(try await pair.near.read() == Array("hello".utf8))
    }
  }
}
