import Foundation
import TestSupport
import Testing
import UV

@Suite(.timeLimit(.minutes(1))) struct TCPProxyTests {
  /// Runs `body` with the address of a proxy to a server whose clients `handler` gets.
  private func withProxy(
    _ handler: @escaping @Sendable (TCPStream) async throws -> Void,
    _ body: (ExampleProcess, SocketAddress, EventLoop) async throws -> Void
  ) async throws {
    try await withLoop { loop in
      try await TCPListener.withListener(on: .loopback(port: 0), loop: loop) { target in
        let serving = Task {
          try await target.serve(gracePeriod: .zero, onError: { _, _ in }, handler)
        }
        let proxy = try ExampleProcess("tcp-proxy", ["127.0.0.1:0", "\(target.localAddress)"])
        defer { proxy.send(SIGKILL) }
        await eventually { proxy.exit != nil || !proxy.lines().isEmpty }
        let words = proxy.lines()[0].split(whereSeparator: { " ,".contains($0) })
        #expect(proxy.lines()[0].hasSuffix(", forwarding to \(target.localAddress)"))
        try await body(proxy, SocketAddress(String(words[2])), loop)
        serving.cancel()
        _ = await serving.result
      }
    }
  }

  private func echo(_ stream: TCPStream) async throws {
    for try await bytes in stream { try await stream.write(bytes) }
  }

  @Test(arguments: [1, 65_536, 8 << 20])
  func bytesPassBothWaysAndThenTheEnd(count: Int) async throws {
    try await withProxy(echo) { _, address, loop in
      let stream = try await TCPStream.connect(to: address, loop: loop)
      async let received = stream.readPattern()
      try await stream.write(Pattern.bytes(count))
      try await stream.shutdownSending()
      #expect(try await received == count)
      await stream.close()
    }
  }

  @Test func theEndOfOneDirectionLeavesTheOtherOpen() async throws {
    try await withProxy { stream in
      let request = try await stream.readLine()
      #expect(request == "all of it")
      let end = try await stream.read()
      #expect(end == nil)
      try await stream.write("the answer\n")
    } _: { _, address, loop in
      let stream = try await TCPStream.connect(to: address, loop: loop)
      try await stream.write("all of it\n")
      try await stream.shutdownSending()
      #expect(try await stream.readLine() == "the answer")
      #expect(try await stream.read() == nil)
      await stream.close()
    }
  }

  @Test func aReceiverThatDoesNotReadHoldsTheSender() async throws {
    let mayRead = Event()
    let count = 32 << 20
    try await withProxy { stream in
      await mayRead.wait()
      let received = try await stream.readPattern()
      try await stream.write("\(received)\n")
    } _: { proxy, address, loop in
      let stream = try await TCPStream.connect(to: address, loop: loop)
      let before = proxy.memory
      let write = Task { try await stream.write(Pattern.bytes(count)) }
      var last = 0
      var unchanged = 0
      await eventually("nothing moves any more") {
        unchanged = stream.bytesQueued == last && last > 0 ? unchanged + 1 : 0
        last = stream.bytesQueued
        return unchanged == 100
      }
      #expect(proxy.memory - before < 16 << 20)
      mayRead.set()
      try await write.value
      try await stream.shutdownSending()
      #expect(try await stream.readLine() == "\(count)")
      await stream.close()
    }
  }

  @Test func aResetPassesOn() async throws {
    let failed = Event()
    try await withProxy { stream in
      try await stream.write("hello\n")
      do { while try await stream.read() != nil {} } catch { failed.set() }
    } _: { _, address, loop in
      let stream = try await TCPStream.connect(to: address, loop: loop)
      #expect(try await stream.readLine() == "hello")
      stream.abort()
      await failed.wait()
    }
  }

  @Test func aTargetThatRefusesResetsTheClient() async throws {
    try await RawSocket.withBoundPort { _, port in
      let proxy = try ExampleProcess("tcp-proxy", ["127.0.0.1:0", "127.0.0.1:\(port)"])
      defer { proxy.send(SIGKILL) }
      await eventually { proxy.exit != nil || !proxy.lines().isEmpty }
      let words = proxy.lines()[0].split(whereSeparator: { " ,".contains($0) })
      let address = try SocketAddress(String(words[2]))
      // The reset may come before the connection is set up.
      await #expect(throws: IOError.self) {
        let stream = try await TCPStream.connect(to: address)
        defer { stream.abort() }
        _ = try await stream.read()
      }
      await eventually("it says why") {
        proxy.lines(.errors).contains { $0.contains("connection refused") }
      }
    }
  }

  @Test(arguments: [SIGINT, SIGTERM])
  func aSignalEndsTheProxyInOrder(signal: CInt) async throws {
    try await withProxy(echo) { proxy, address, loop in
      let stream = try await TCPStream.connect(to: address, loop: loop)
      try await stream.write("a line\n")
      #expect(try await stream.readLine() == "a line")
      proxy.send(signal)
      #expect(try await stream.read() == nil)
      await stream.close()
      let exit = try await proxy.waitUntilExit()
      #expect(exit == .init(status: 0))
    }
  }

  @Test(arguments: [
    [], ["127.0.0.1:0"], ["127.0.0.1:0", "x"], ["127.0.0.1:0", ":80"], ["127.0.0.1:0", "x:0"],
    ["nowhere", "x:80"], ["127.0.0.1:0", "x:80", "y"],
  ])
  func whatMakesNoSenseIsAUsageError(arguments: [String]) async throws {
    let proxy = try ExampleProcess("tcp-proxy", arguments)
    defer { proxy.send(SIGKILL) }
    let exit = try await proxy.waitUntilExit()
    #expect(exit == .init(status: 64))
    #expect(proxy.lines().isEmpty && proxy.lines(.errors).count == 1)
  }
}
