/// What was to be done within a time was not.
public struct TimedOut: Error, Hashable, Sendable, CustomStringConvertible {
  /// The time that it had.
  public let limit: Duration

  public init(limit: Duration) { self.limit = limit }

  public var description: String { "timed out after \(limit)" }
}

/// Runs `body` as a child task, and cancels that when `limit` has passed.
///
/// Any thread; `body` runs where a child task of the caller does. It is waited for in any case: the time limit is a request to end, which
/// everything in this package that waits follows at once. A value that comes all the same is returned, so that nothing
/// it owns is lost.
///
/// - Parameter loop: Whose timer measures the time.
/// - Throws: ``TimedOut`` if the time was up and `body` ended by `CancellationError`; otherwise what `body` throws; ``EventLoopClosed`` if
///   the loop shuts down first, which cancels `body` too.
public func withTimeout<Value: Sendable>(
  _ limit: Duration, on loop: EventLoop = .shared,
  _ body: @escaping @Sendable () async throws -> Value
) async throws -> Value {
  let result: Result<Value, any Error> = await withTaskGroup(of: TimedPart<Value>.self) { group in
    group.addTask { .body(await Result { try await body() }) }
    group.addTask { .time(await Result { try await loop.sleep(for: limit) }) }
    var result: Result<Value, any Error>?
    // Why the body was told to end, if it was.
    var reason: (any Error)?
    while let part = await group.next() {
      switch part {
      case .body(let bodyResult): result = bodyResult
      case .time(.success): if result == nil { reason = TimedOut(limit: limit) }
      case .time(.failure(let error)): if result == nil { reason = error }
      }
      group.cancelAll()
    }
    if let reason, case .failure(is CancellationError) = result { return .failure(reason) }
    return result!  // Both have ended.
  }
  return try result.get()
}

private enum TimedPart<Value: Sendable>: Sendable {
  case body(Result<Value, any Error>)
  case time(Result<Void, any Error>)
}

extension Result where Failure == any Error {
  fileprivate init(_ body: () async throws -> Success) async {
    do { self = .success(try await body()) } catch { self = .failure(error) }
  }
}
