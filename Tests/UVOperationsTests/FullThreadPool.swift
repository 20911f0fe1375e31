import Dispatch
import TestSupport
import Testing
import UV
import UVOperations

/// Runs `body` while libuv's thread pool has nothing free, so that a look-up waits behind it.
func withFullThreadPool<Value>(_ body: () async throws -> Value) async throws -> Value {
  try await withLoop { loop in
    let mayEnd = DispatchSemaphore(value: 0)
    // As many as the pool can have threads, whatever the environment says.
    let blockers = (0..<1_024).map { _ in WorkOperation(on: loop) { mayEnd.wait() } }
    for blocker in blockers { blocker.start() }
    await eventually("the pool is full") { loop.statistics.requests == blockers.count }
    defer { for _ in blockers { mayEnd.signal() } }
    return try await body()
  }
}
