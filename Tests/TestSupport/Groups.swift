internal import Dispatch
public import Testing
public import UV

/// A group of loops for one test: shut down at the end, and checked to have nothing left.
public func withGroup(
  of count: Int, sourceLocation: SourceLocation = #_sourceLocation,
  _ body: (EventLoopGroup) async throws -> Void
) async throws {
  let loops = try await useGroup(of: count, sourceLocation, body)
  for loop in loops {
    await expectGone("a loop of the group", sourceLocation: sourceLocation) { loop.isAlive }
  }
}

// A function of its own, so that nothing here holds the loops when the caller looks for them.
private func useGroup(
  of count: Int, _ sourceLocation: SourceLocation, _ body: (EventLoopGroup) async throws -> Void
) async throws -> [WeakLoop] {
  let group = try EventLoopGroup(loops: .init(count))
  do {
    try await body(group)
  } catch {
    Issue.record(error, sourceLocation: sourceLocation)
  }
  for loop in group.loops { await expectNothingLeft(on: loop, sourceLocation: sourceLocation) }
  await group.shutdown()
  return group.loops.map(WeakLoop.init)
}

/// Keeps the thread of a loop from everything else until ``end()``.
public struct BlockedLoop: Sendable {
  private let mayGoOn = DispatchSemaphore(value: 0)

  public init(_ loop: EventLoop) async throws {
    let isBlocked = Event()
    try loop.execute { [mayGoOn] in
      isBlocked.set()
      mayGoOn.wait()
    }
    await isBlocked.wait()
  }

  public func end() { mayGoOn.signal() }
}
