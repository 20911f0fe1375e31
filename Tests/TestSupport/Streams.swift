import Glibc
public import Testing
public import UV

/// Where the code of a test runs: there, calls take the direct path, elsewhere they hop.
public enum Place: String, CaseIterable, Sendable {
  case loopThread, elsewhere

  /// Runs `body` there.
  @discardableResult
  public func run<Value>(
    _ loop: EventLoop, _ body: () async throws -> Value
  ) async throws -> Value {
    switch self {
    case .loopThread: try await withTaskExecutorPreference(loop) { try await body() }
    case .elsewhere: try await body()
    }
  }
}

extension TCPOptions {
  /// Kernel buffers that a few hundred KiB fill.
  public static var smallBuffers: TCPOptions {
    var options = TCPOptions()
    options.sendBufferSize = 32_768
    options.receiveBufferSize = 32_768
    return options
  }
}

/// Two ends of one connection on a loop of its own: `near` connected, `far` was accepted.
///
/// At the end both are reset, if `body` has not closed them, and the loop must be left without a handle, the streams without a
/// holder.
public func withConnectedStreams(
  _ place: Place = .elsewhere, options: TCPOptions = TCPOptions(),
  sourceLocation: SourceLocation = #_sourceLocation,
  _ body: (_ near: TCPStream, _ far: TCPStream) async throws -> Void
) async throws {
  try await withLoop { loop in
    let pair = try await useStreams(on: loop, place, options, body)
    await eventually("every handle is closed", sourceLocation: sourceLocation) {
      loop.statistics.handles == 0
    }
    await eventually("nobody holds the streams", sourceLocation: sourceLocation) { pair.isGone }
  }
}

// A function of its own, so that nothing here holds the streams when the caller looks for them.
private func useStreams(
  on loop: EventLoop, _ place: Place, _ options: TCPOptions,
  _ body: (TCPStream, TCPStream) async throws -> Void
) async throws -> WeakPair {
  let (near, far) = try await connectedPair(on: loop, options: options)
  defer {
    near.abort()
    far.abort()
  }
  try await place.run(loop) { try await body(near, far) }
  return WeakPair(near: near.core, far: far.core)
}

/// Two ends of one connection, for the caller to close.
public func connectedPair(
  on loop: EventLoop, options: TCPOptions = TCPOptions()
) async throws -> (near: TCPStream, far: TCPStream) {
  var listening = TCPListener.Options()
  listening.stream = options
  return try await TCPListener.withListener(
    on: .loopback(port: 0), options: listening, loop: loop
  ) { listener in
    async let far = listener.accept()
    let near = try await TCPStream.connect(
      to: listener.localAddress, options: options, loop: loop)
    return (near, try await far)
  }
}

private struct WeakPair {
  weak let near: StreamCore?
  weak let far: StreamCore?

  var isGone: Bool { near == nil && far == nil }
}

extension EventLoop {
  /// Returns when the loop has gone through a few turns: what was due by now has happened.
  public func someTurns() async throws {
    for _ in 0..<5 { try await sleep(for: .zero) }
  }
}

// MARK: Content

/// An endless sequence of bytes that repeats only after a prime number of them, so that a gap, a repetition or a swap shows.
public enum Pattern {
  private static let period = 65_521
  private static let table: [UInt8] = (0..<2 * period).map {
    UInt8(truncatingIfNeeded: (UInt32($0 % period) &* 2_654_435_761) >> 13)
  }

  public static func bytes(_ range: Range<Int>) -> [UInt8] {
    [UInt8](unsafeUninitializedCapacity: range.count) { bytes, count in
      forEachPiece(of: range) { piece, offset in
        UnsafeMutableRawBufferPointer(bytes).baseAddress!.advanced(by: offset)
          .copyMemory(from: piece.baseAddress!, byteCount: piece.count)
      }
      count = range.count
    }
  }

  public static func bytes(_ count: Int) -> [UInt8] { bytes(0..<count) }

  /// Whether `bytes` are those of the sequence from `offset` on.
  public static func matches(_ bytes: [UInt8], at offset: Int) -> Bool {
    var isEqual = true
    bytes.withUnsafeBytes { bytes in
      forEachPiece(of: offset..<offset + bytes.count) { piece, position in
        let part = UnsafeRawBufferPointer(rebasing: bytes[position..<position + piece.count])
        isEqual = isEqual && part.elementsEqual(piece, by: piece.count)
      }
    }
    return isEqual
  }

  private static func forEachPiece(
    of range: Range<Int>, _ body: (UnsafeRawBufferPointer, Int) -> Void
  ) {
    table.withUnsafeBytes { table in
      var position = range.lowerBound
      while position < range.upperBound {
        let start = position % period
        let count = min(period, range.upperBound - position)
        body(
          UnsafeRawBufferPointer(rebasing: table[start..<start + count]),
          position - range.lowerBound)
        position += count
      }
    }
  }
}

extension UnsafeRawBufferPointer {
  // Byte by byte is slow in debug builds, and there are hundreds of MiB to compare.
  fileprivate func elementsEqual(_ other: UnsafeRawBufferPointer, by count: Int) -> Bool {
    count == 0 || memcmp(baseAddress!, other.baseAddress!, count) == 0
  }
}

extension TCPStream {
  /// Reads to the end of the stream, or until `count` bytes have come, and checks that they are the pattern from `offset` on.
  ///
  /// - Returns: How many have come.
  @discardableResult
  public func readPattern(
    _ count: Int = .max, from offset: Int = 0, upTo limit: Int = 65_536,
    sourceLocation: SourceLocation = #_sourceLocation
  ) async throws -> Int {
    var received = 0
    while received < count, let bytes = try await read(upTo: Swift.min(limit, count - received)) {
      guard !bytes.isEmpty, Pattern.matches(bytes, at: offset + received) else {
        Issue.record("wrong bytes at \(offset + received)", sourceLocation: sourceLocation)
        return received
      }
      received += bytes.count
    }
    return received
  }

  /// Writes blocks of the pattern until the system takes no more, because the other side does not read.
  ///
  /// - Returns: The last write, which waits, and the number of bytes up to its end. All of that write is with libuv.
  public func fill() async throws -> (held: Task<Void, any Error>, count: Int) {
    let block = 8_192
    var count = 0
    while true {
      let bytes = Pattern.bytes(count..<count + block)
      count += block
      let isDone = Collected<Void>()
      let write = Task {
        defer { isDone.append(()) }
        try await self.write(bytes)
      }
      await eventually("a write ends or waits") { isDone.count > 0 || bytesQueued > 0 }
      // The other side acknowledges late, and the system then takes a little more: it is full when nothing moves any more.
      while isDone.count == 0 {
        if try await staysPut() { return (write, count) }
      }
      try await write.value
    }
  }
}

extension TCPStream {
  /// Whether the bytes that are queued are as many as before after a time longer than any delay of an acknowledgement.
  private func staysPut() async throws -> Bool {
    let before = bytesQueued
    try await loop.sleep(for: .milliseconds(300))
    return bytesQueued == before
  }
}

// MARK: Operations' way in

/// A read's or write's completion that calls a closure on the loop thread.
package final class Sink<Value: Sendable>: Sendable {
  private let body: @Sendable (Result<Value, any Error>) -> Void

  package init(_ body: @escaping @Sendable (Result<Value, any Error>) -> Void) { self.body = body }

  fileprivate func finish(_ result: Result<Value, any Error>) { body(result) }
}

extension Sink: WriteConsumer where Value == Void {
  package func writeDidFinish(_ result: Result<Void, any Error>) { finish(result) }
}

extension Sink: ReadConsumer where Value == [UInt8]? {
  package func readDidFinish(_ result: Result<[UInt8]?, any Error>) { finish(result) }
}

extension StreamCore {
  /// Loop thread only.
  @discardableResult
  package func write(
    _ bytes: [UInt8], then body: @escaping @Sendable (Result<Void, any Error>) -> Void
  ) -> UInt64 {
    let ticket = nextTicket()
    write(bytes, ticket: ticket, for: Sink(body))
    return ticket
  }

  /// Loop thread only.
  package func read(
    upTo limit: Int = 65_536,
    then body: @escaping @Sendable (Result<[UInt8]?, any Error>) -> Void
  ) {
    read(upTo: limit, ticket: nextTicket(), for: Sink(body))
  }
}

/// Waits until `loop` has no handle and no request.
public func expectNothingLeft(
  on loop: EventLoop, sourceLocation: SourceLocation = #_sourceLocation
) async {
  await eventually("nothing lives on the loop", sourceLocation: sourceLocation) {
    loop.statistics.handles == 0 && loop.statistics.requests == 0
  }
}
