public import UV

/// A loop for one test: shut down at the end, and checked to have nothing left.
public func withLoop<Value>(_ body: (EventLoop) async throws -> Value) async throws -> Value {
  let loop = try EventLoop()
  let result: Result<Value, any Error>
  do { result = .success(try await body(loop)) } catch { result = .failure(error) }
  await loop.shutdown()
  precondition(loop.statistics.handles == 0 && loop.statistics.requests == 0)
  return try result.get()
}
