import Foundation
import TestSupport
import Testing
import UV
import UVOperations

@Suite(.timeLimit(.minutes(1)))
struct ConnectOperationTests {
  // MARK: Looking up

  @Test(arguments: ["localhost", "127.0.0.1", "::1"])
  func aHostIsLookedUp(host: String) async throws {
    try await withLoop { loop in
      let resolve = ResolveOperation(host, port: 80, on: loop)
      OperationQueue().add(resolve)
      let addresses = try await resolve.value
      #expect(!addresses.isEmpty)
      for address in addresses {
        #expect(["127.0.0.1", "::1"].contains(address.host) && address.port == 80)
      }
    }
  }

  @Test(arguments: ["", "a b\0c", String(repeating: "x", count: 64) + ".example"])
  func whatCannotBeAHostFails(host: String) async throws {
    try await withLoop { loop in
      let resolve = ResolveOperation(host, port: 80, on: loop)
      resolve.start()
      await #expect(throws: AddressError.self) { try await resolve.value }
    }
  }

  @Test func anUnknownNameFails() async throws {
    try await withLoop { loop in
      let resolve = ResolveOperation("nobody.invalid", port: 80, on: loop)
      resolve.start()
      let error = await resolve.thrown as? IOError
      #expect(error?.operation == "resolve" && error?.subject == "nobody.invalid")
    }
  }

  @Test func cancellingALookUpFinishesItAtOnce() async throws {
    try await withLoop { loop in
      let resolve = ResolveOperation("localhost", port: 80, on: loop)
      // On the loop thread, so that the answer cannot come in between.
      try await loop.run {
        resolve.start()
        resolve.cancel()
        #expect(resolve.isFinished)
      }
      await #expect(throws: CancellationError.self) { try await resolve.value }
    }
  }

  // MARK: Connecting

  @Test func theOutputIsTheStream() async throws {
    try await withListener { listener in
      let accept = AcceptOperation(from: listener)
      let connect = ConnectOperation(
        to: "localhost", port: listener.localAddress.port, on: listener.loop)
      OperationQueue().add(accept, connect)
      let far = try await accept.value
      let near = try await connect.value
      #expect(near.peerAddress == far.localAddress && near.localAddress == far.peerAddress)
      await near.close()
      await far.close()
    }
  }

  @Test func aRefusedConnectionSaysSo() async throws {
    try await withRefusingAddress { address in
      try await withLoop { loop in
        let connect = ConnectOperation(to: address, on: loop)
        OperationQueue().add(connect)
        let error = try #require(await connect.thrown)
        #expect("\(error)" == "connect \(address): connection refused (ECONNREFUSED)")
        #expect("\(error)".hasPrefix("connect 127.0.0.1:"))
      }
    }
  }

  @Test func runningOutOfTimeIsAnIOError() async throws {
    try await withSilentAddress { address, loop in
      let connect = ConnectOperation(to: address, on: loop)
      connect.timeout = .milliseconds(20)
      OperationQueue().add(connect)
      let error = await connect.thrown as? IOError
      #expect(error == IOError(.timedOut, "connect", "\(address)"))
    }
  }

  @Test func aFailedConnectFailsWhatDependsOnIt() async throws {
    try await withRefusingAddress { address in
      try await withLoop { loop in
        let queue = OperationQueue()
        let connect = ConnectOperation(to: address, on: loop)
        let write = WriteOperation("hello", to: try connect.output)
        let read = ReadOperation(from: try connect.output)
        let close = CloseOperation(try connect.output)
        write.addDependency(connect)
        read.addDependency(write)
        close.addDependency(read)
        queue.add(close, read, write, connect)
        for error in [await write.thrown, await read.thrown, await close.thrown] {
          #expect((error as? IOError)?.code == .connectionRefused)
        }
      }
    }
  }

  /// A cancel that comes as the connection is made: the stream is the output, or it is closed. The check of the loop tells.
  @Test func cancellingLeavesNoConnectionBehind() async throws {
    try await withListener { listener in
      for round in 0..<200 {
        let connect = ConnectOperation(to: listener.localAddress, on: listener.loop)
        connect.start()
        for _ in 0..<round % 10 { await Task.yield() }
        connect.cancel()
        do {
          let near = try await connect.value
          near.abort()
        } catch {
          #expect(error is CancellationError)
        }
      }
    }
  }

  // MARK: Accepting

  @Test func clientsAreAcceptedInTheOrderOfTheStarts() async throws {
    try await withListener { listener in
      let queue = OperationQueue()
      queue.maxConcurrentOperationCount = 20
      let accepts = (0..<10).map { _ in AcceptOperation(from: listener) }
      for accept in accepts { accept.start() }
      var clients: [TCPStream] = []
      for _ in accepts {
        clients.append(
          try await TCPStream.connect(to: listener.localAddress, loop: listener.loop))
      }
      for (accept, client) in zip(accepts, clients) {
        let stream = try await accept.value
        #expect(stream.peerAddress == client.localAddress)
        stream.abort()
        client.abort()
      }
    }
  }

  @Test func aCancelledAcceptLosesNoClient() async throws {
    try await withListener { listener in
      for round in 0..<200 {
        let accept = AcceptOperation(from: listener)
        accept.start()
        let client = Task {
          try await TCPStream.connect(to: listener.localAddress, loop: listener.loop)
        }
        for _ in 0..<round % 12 { await Task.yield() }
        accept.cancel()
        var accepted = try? await accept.value
        if accepted == nil {
          let next = AcceptOperation(from: listener)
          next.start()
          accepted = try await next.value
        }
        let stream = try await client.value
        #expect(accepted?.peerAddress == stream.localAddress)
        accepted?.abort()
        stream.abort()
      }
    }
  }

  @Test func closingTheListenerEndsWhatAccepts() async throws {
    try await withListener { listener in
      let accept = AcceptOperation(from: listener)
      accept.start()
      await listener.close()
      await #expect(throws: StreamClosed.self) { try await accept.value }
      let late = AcceptOperation(from: listener)
      late.start()
      await #expect(throws: StreamClosed.self) { try await late.value }
    }
  }
}
