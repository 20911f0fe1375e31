public import Testing
public import UV

/// A loop for one test: shut down at the end, and checked to have nothing left.
///
/// Fails the test if a handle or a request is still counted after the shutdown, or if a callback or a task keeps the
/// loop in memory when `body` has returned.
public func withLoop<Value>(
  sourceLocation: SourceLocation = #_sourceLocation,
  _ body: (EventLoop) async throws -> Value
) async throws -> Value {
  let (result, witness) = try await useLoop(sourceLocation, body)
  await expectGone("the loop", sourceLocation: sourceLocation) { witness.isAlive }
  return try result.get()
}

// A function of its own, so that nothing here holds the loop when the caller looks for it.
private func useLoop<Value>(
  _ sourceLocation: SourceLocation, _ body: (EventLoop) async throws -> Value
) async throws -> (Result<Value, any Error>, WeakLoop) {
  let loop = try EventLoop()
  let result: Result<Value, any Error>
  do { result = .success(try await body(loop)) } catch { result = .failure(error) }
  await loop.shutdown()
  let left = loop.statistics
  if left.handles != 0 || left.requests != 0 {
    Issue.record(
      "\(left.handles) handles and \(left.requests) requests outlived their loop",
      sourceLocation: sourceLocation)
  }
  return (result, WeakLoop(shell: loop, core: loop.core))
}

/// A loop, without holding it.
public struct WeakLoop {
  private weak let shell: EventLoop?
  private weak let core: LoopCore?

  fileprivate init(shell: EventLoop, core: LoopCore) {
    self.shell = shell
    self.core = core
  }

  public init(_ loop: EventLoop) { self.init(shell: loop, core: loop.core) }

  /// Whether anything still holds the loop, or its thread still runs.
  public var isAlive: Bool { shell != nil || core != nil }
}
