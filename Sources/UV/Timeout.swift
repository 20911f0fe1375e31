/// What was to be done within a time was not.
public struct TimedOut: Error, Hashable, Sendable, CustomStringConvertible {
  /// The time that it had.
  public let limit: Duration

  public init(limit: Duration) { self.limit = limit }

  public var description: String { "timed out after \(limit)" }
}

/// Runs `body` as a child task, and cancels that when `limit` has passed.
///
/// ```swift
/// let words = try await withTimeout(.seconds(3)) { try await stream.readLine() }
/// ```
///
/// Any thread; `body` runs where a child task of the caller does, or on the actor that it belongs to, and may use and change whatever the
/// caller can, which waits meanwhile. It is waited for in any case: the time limit is a request to end, which everything in this package
/// that waits follows at once. A value that comes all the same is returned, so that nothing it owns is lost.
///
/// - Parameters:
///   - loop: Whose timer measures the time.
///   - isolation: The caller's, which need not be given.
/// - Throws: ``TimedOut`` if the time was up and `body` ended by `CancellationError`; otherwise what `body` throws; ``EventLoopClosed`` if
///   the loop shuts down first, which cancels `body` too.
public func withTimeout<Value>(
  _ limit: Duration, on loop: EventLoop = .shared,
  isolation: isolated (any Actor)? = #isolation, _ body: () async throws -> Value
) async throws -> Value {
  try await withoutActuallyEscaping(body) { body in
    _ = isolation  // Makes this closure the caller's, as `body` is.
    return try await timedResult(of: TimedBody(run: body), limit, loop, isolation).value.get()
  }
}

private func timedResult<Value>(
  of body: TimedBody<Value>, _ limit: Duration, _ loop: EventLoop,
  _ isolation: isolated (any Actor)?
) async -> TimedResult<Value> {
  await withTaskGroup(of: TimedPart<Value>.self) { group in
    group.addTask { .body(TimedResult(value: await Result { try await body.run() })) }
    group.addTask { .time(await Result { try await loop.sleep(for: limit) }) }
    var result: TimedResult<Value>?
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
    if let reason, case .failure(is CancellationError) = result?.value {
      return TimedResult(value: .failure(reason))
    }
    return result!  // Both have ended.
  }
}

// Unchecked: the task that made the body waits while the child task has it.
private struct TimedBody<Value>: @unchecked Sendable {
  let run: () async throws -> Value
}

// Unchecked: the child task has ended when the waiting task gets the value.
private struct TimedResult<Value>: @unchecked Sendable {
  let value: Result<Value, any Error>
}

private enum TimedPart<Value>: Sendable {
  case body(TimedResult<Value>)
  case time(Result<Void, any Error>)
}

extension Result where Failure == any Error {
  fileprivate init(_ body: () async throws -> Success) async {
    do { self = .success(try await body()) } catch { self = .failure(error) }
  }
}
