import Foundation
import TestSupport
import Testing
import UV
import UVOperations

/// Two connected streams on a loop of their own, and a queue.
struct Pair {
  let loop: EventLoop
  let listener: TCPListener
  let near: TCPStream
  let far: TCPStream
  let queue = OperationQueue()
}

/// Runs `body` with a listener on a loop for this test, which is shut down and checked at the end.
func withListener(
  backlog: Int = 64, _ body: (TCPListener) async throws -> Void
) async throws {
  try await withLoop { loop in
    var options = TCPListener.Options()
    options.backlog = backlog
    try await TCPListener.withListener(
      on: .loopback(port: 0), options: options, loop: loop, body)
  }
}

func withPair(_ body: (Pair) async throws -> Void) async throws {
  try await withListener { listener in
    let loop = listener.loop
    async let accepted = listener.accept()
    let near = try await TCPStream.connect(to: listener.localAddress, loop: loop)
    let pair = Pair(loop: loop, listener: listener, near: near, far: try await accepted)
    defer {
      pair.near.abort()
      pair.far.abort()
    }
    try await body(pair)
  }
}

/// An address that nobody listens on, and that nobody else gets meanwhile.
func withRefusingAddress(_ body: (SocketAddress) async throws -> Void) async throws {
  let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
  defer { close(descriptor) }
  var address = sockaddr_in()
  address.sin_family = sa_family_t(AF_INET)
  address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
  var size = socklen_t(MemoryLayout<sockaddr_in>.size)
  withUnsafeMutableBytes(of: &address) { bytes in
    let pointer = bytes.baseAddress!.assumingMemoryBound(to: sockaddr.self)
    precondition(bind(descriptor, pointer, size) == 0)
    precondition(getsockname(descriptor, pointer, &size) == 0)
  }
  try await body(.loopback(port: Int(in_port_t(bigEndian: address.sin_port))))
}

/// Runs `body` with an address that neither accepts nor refuses: its listener takes nobody and has no room left.
func withSilentAddress(_ body: (SocketAddress, EventLoop) async throws -> Void) async throws {
  try await withListener(backlog: 0) { listener in
    let last = try await TCPStream.connect(to: listener.localAddress, loop: listener.loop)
    defer { last.abort() }
    try await body(listener.localAddress, listener.loop)
  }
}

/// More than the system takes from a writer while nobody reads.
let moreThanTheSystemTakes = [UInt8](repeating: 7, count: 16 << 20)

/// What is left to read, up to the end of the stream.
func readAll(_ stream: TCPStream) async throws -> [UInt8] {
  var bytes: [UInt8] = []
  for try await part in stream { bytes += part }
  return bytes
}

extension ResultOperation {
  /// The error that it ends with.
  var thrown: (any Error)? {
    get async {
      do {
        _ = try await value
        return nil
      } catch {
        return error
      }
    }
  }
}
