import UV

/// Connections that are made, carry one byte there and back, and are closed: clients and server on one loop.
extension Work {
  func churn() async throws -> Duration {
    let served = Tally()
    let listener = try TCPListener(on: .loopback(port: 0), loop: loop)
    let server = Task(executorPreference: loop) {
      try await listener.serve(onError: { error, _ in fail("serving a client: \(error)") }) {
        stream in
        for try await bytes in stream { try await stream.write(bytes) }
        served.add()
      }
    }
    let time = try await inLanes { try await connectOnce(to: listener.localAddress, number: $0) }
    await listener.close()
    try await server.value
    served.check(is: count, "connections were served")
    return time
  }

  private func connectOnce(to address: SocketAddress, number: Int) async throws {
    let byte = UInt8(truncatingIfNeeded: number)
    let answer = try await TCPStream.withConnection(to: address, loop: loop) { stream in
      try await stream.write([byte])
      return try await stream.read()
    }
    check(answer == [byte], "the wrong answer for connection \(number)")
  }

  /// Calls `body` with each number, many at a time: each lane goes on when it has ended its call before. Returns how long it took.
  private func inLanes(_ body: @escaping @Sendable (Int) async throws -> Void) async throws
    -> Duration
  {
    let start = ContinuousClock.now
    try await withThrowingTaskGroup { group in
      for lane in 0..<laneCount {
        group.addTask(executorPreference: loop) {
          loop.preconditionIsCurrent()
          for number in stride(from: lane, to: count, by: laneCount) { try await body(number) }
        }
      }
      try await group.waitForAll()
    }
    return start.duration(to: .now)
  }
}

private let laneCount = 16
