public import UV

/// Runs an `async` closure on an event loop, and ends with what it returns or throws.
///
/// What has no operation of its own becomes one so:
///
/// ```swift
/// let rename = TaskOperation { try await FileSystem.rename("new", to: "old") }
/// ```
///
/// - Threads: the closure runs as a task that prefers `loop` as its executor.
/// - Cancelling, or running out of ``ResultOperation/timeout``, cancels the task. The operation finishes when the closure has: with
///   `CancellationError` or ``OperationTimedOut`` if it throws then, otherwise with what it returned.
public class TaskOperation<Output: Sendable>: RequestOperation<Output>, @unchecked Sendable {
  // Unchecked: as RequestOperation.

  public init(
    on loop: EventLoop = .shared, _ body: @escaping @Sendable () async throws -> Output
  ) {
    super.init { (loop, TaskRequest(on: loop, body), nil) }
  }

  /// - Parameter source: Evaluates the inputs, which the body then has.
  package init(
    evaluating source:
      @escaping @Sendable () throws -> (EventLoop, @Sendable () async throws -> Output)
  ) {
    super.init {
      let (loop, body) = try source()
      return (loop, TaskRequest(on: loop, body), nil)
    }
  }
}

/// A task as something that a loop does. Loop thread only, but for `init`.
// Unchecked: the variables are loop thread only.
package final class TaskRequest<Value: Sendable>: LoopRequest, @unchecked Sendable {
  private let loop: EventLoop
  private var body: (@Sendable () async throws -> Value)?
  private var task: Task<Void, Never>?
  private var stopError: (any Error)?

  package init(on loop: EventLoop, _ body: @escaping @Sendable () async throws -> Value) {
    self.loop = loop
    self.body = body
  }

  package func start(_ completion: @escaping (Result<Value, any Error>) -> Void) {
    guard let body = body.take() else {
      return completion(.failure(stopError ?? CancellationError()))
    }
    // Called on the loop thread alone, where the task ends; after the loop has closed, where its late jobs run.
    nonisolated(unsafe) let completion = completion
    task = Task(executorPreference: loop) {
      let result: Result<Value, any Error>
      do { result = .success(try await body()) } catch { result = .failure(error) }
      let end = { @Sendable in completion(self.outcome(result)) }
      if !self.loop.core.perform(end) { end() }
    }
  }

  private func outcome(_ result: Result<Value, any Error>) -> Result<Value, any Error> {
    task = nil
    if case .failure = result, let stopError { return .failure(stopError) }
    return result
  }

  package func cancel(_ error: any Error) {
    if stopError == nil { stopError = error }
    body = nil
    task?.cancel()
  }
}
