internal import Locking
internal import UV

/// An asynchronous operation that ends with a result, which flows on to operations that depend on it.
///
/// Override `main()` and call ``finish(_:)`` once, from any thread.
///
/// ```swift
/// final class Resolve: ResultOperation<Address>, @unchecked Sendable {
///   override func main() { resolver.lookUp(name) { result in self.finish(result) } }
/// }
/// ```
///
/// - Threads: everything may be called on any thread.
/// - Cancelling: the operation finishes with `CancellationError`, also while it runs, after ``AsynchronousOperation/didCancel()`` told the work
///   to stop. What the work delivers then or later is ignored.
/// - Dependencies: when one was cancelled, or has failed, the operation fails with its error instead of running, unless
///   ``startsAfterFailedDependencies`` is set.
// The proof for `Sendable`: `storedResult` is written once, by the one who claimed the finish, before the transition that
// makes it readable; the rest is guarded by `settings`.
open class ResultOperation<Output: Sendable>: AsynchronousOperation, @unchecked Sendable {
  private let settings = Lock(ResultOperationSettings())
  // Readable when finished.
  @exclusivity(unchecked) package private(set) final var storedResult: Result<Output, any Error>?

  public override init() {}

  // MARK: The result

  /// How the operation ended; `nil` until it has finished. Any thread.
  public final var result: Result<Output, any Error>? { isFinished ? storedResult : nil }

  /// What the operation produced. Any thread.
  ///
  /// - Throws: what the operation failed with, and ``OperationNotFinished`` before it has finished.
  public final var output: Output {
    get throws {
      guard let result else { throw OperationNotFinished(operation: displayName) }
      return try result.get()
    }
  }

  /// Waits for the operation, which somebody has to start, and returns what it produced.
  ///
  /// Cancelling the task ends the waiting and leaves the operation alone; ``value(cancellingOperation:)`` can do otherwise.
  ///
  /// - Throws: what the operation failed with, and `CancellationError` if the task is cancelled first.
  public final var value: Output {
    get async throws { try await value(cancellingOperation: false) }
  }

  /// Waits like ``value``, and says whether cancelling the task cancels the operation too.
  public final func value(cancellingOperation cancels: Bool) async throws -> Output {
    if let result { return try result.get() }
    let waiter = ResultWaiter<Output>()
    defer { waiter.synchronize() }
    return try await withTaskCancellationHandler {
      try await withUnsafeThrowingContinuation { continuation in
        waiter.wait(continuation)
        addHandler(waiter: waiter) { waiter.resume(with: Self.result(of: $0)) }
      }
    } onCancel: {
      removeHandlers(of: waiter)
      waiter.resume(with: .failure(CancellationError()))
      if cancels { cancel() }
    }
  }

  /// Calls `body` once with the result when the operation has finished, or at once if it has.
  ///
  /// Handlers are called in the order they were attached, on the thread that finishes the operation, or on a global
  /// queue when that thread is an event loop's and the operation was not started there. They are released then.
  public func whenFinished(_ body: @escaping @Sendable (Result<Output, any Error>) -> Void) {
    addHandler { body(Self.result(of: $0)) }
  }

  /// The result of a finished operation of this class. Handlers get the operation passed instead of capturing it, so
  /// that one which never runs is not kept alive by its own handlers.
  private static func result(of operation: AsynchronousOperation) -> Result<Output, any Error> {
    unsafeDowncast(operation, to: ResultOperation<Output>.self).storedResult!
  }

  // MARK: Finishing

  /// Finishes the operation with `result`. Any thread; may be called inside `main()`.
  ///
  /// The first result stands and later ones are ignored. A result that comes before the operation was started is kept,
  /// and the operation then finishes when it is started, without `main()`.
  public final func finish(_ result: consuming Result<Output, any Error>) {
    guard claimFinish() else { return }
    finishClaimed(with: result)
  }

  /// Finishes the operation with what it produced, like ``finish(_:)``.
  public final func finish(returning output: Output) { finish(.success(output)) }

  /// Finishes the operation as failed, like ``finish(_:)``.
  public final func finish(throwing error: any Error) { finish(.failure(error)) }

  /// Finishes an operation whose output is `Void`. Traps for any other, which has to say what it produced.
  public final override func finish() {
    guard let nothing = () as? Output else {
      // Nothing it could finish with exists, and going on would leave it unfinished for ever.
      fatalError(
        "\(displayName) has to finish with a result: call finish(returning:) or finish(throwing:)")
    }
    finish(returning: nothing)
  }

  /// The default has nothing to do, and finishes an operation whose output is `Void`.
  open override func main() { finish() }

  private func finishClaimed(with result: consuming Result<Output, any Error>) {
    storedResult = result
    requestFinish()
  }

  package final override func finishClaimed(withoutMain: Bool) {
    finishClaimed(with: .failure(CancellationError()))
  }

  // MARK: Timeout

  /// How long the operation may take from its start; `nil`, the default, is for ever. Set it before the start.
  ///
  /// The operation then fails with ``OperationTimedOut``, after ``AsynchronousOperation/didCancel()`` told the work to stop. It does not fail
  /// before `main()` has returned.
  public final var timeout: Duration? {
    get { settings.withLock { $0.timeout } }
    set {
      if isStarted {
        Report.send("the timeout of \(displayName) was set after its start and has no effect")
      }
      timeoutIsSet()
      settings.withLock { $0.timeout = newValue }
    }
  }

  /// Calls `body` once after `duration`, and returns what takes that back. Any thread.
  package func scheduleTimeout(
    after duration: Duration, _ body: @escaping @Sendable () -> Void
  ) -> @Sendable () -> Void {
    callLater(after: duration, body)
  }

  /// Whether the time counts from the call of `main()`. An operation on an event loop, which has the timer, knows its loop a moment later.
  package var timesItselfFromMain: Bool { true }

  package final override func willCallMain() {
    if timesItselfFromMain { startTimeout() }
  }

  /// Starts the time. To be called in `main()` at the latest.
  package final func startTimeout() {
    guard hadTimeout, let timeout else { return }
    let cancelTimer = scheduleTimeout(after: timeout) { [weak self] in self?.timeOut() }
    // The operation completes after `main()`, so this comes before willFinish().
    settings.withLock { $0.cancelTimer = cancelTimer }
  }

  private func timeOut() {
    settings.withLock { $0.hasTimedOut = true }
    requestStop()
  }

  package override func willFinish() {
    guard hadTimeout else { return }
    settings.withLock { $0.cancelTimer.take() }?()
  }

  /// One whose work always ends soon after a stop, and with a result that must not be lost, says no and waits for that.
  package override var finishesWhenStopped: Bool { true }

  package final override func finishClaimedByStop() {
    finishClaimed(with: .failure(stopError))
  }

  /// What a stopped operation fails with.
  package final var stopError: any Error {
    settings.withLock { $0.hasTimedOut } && !isCancelled ? timeoutError : CancellationError()
  }

  /// What an operation fails with that ran out of time.
  package var timeoutError: any Error {
    OperationTimedOut(operation: displayName, timeout: timeout ?? .zero)
  }

  // MARK: Dependencies

  /// Whether the operation runs although a dependency was cancelled or failed. Set it before the start.
  ///
  /// `main()` then looks at the results of the dependencies itself.
  public final var startsAfterFailedDependencies: Bool {
    get { settings.withLock { $0.startsAfterFailedDependencies } }
    set { settings.withLock { $0.startsAfterFailedDependencies = newValue } }
  }

  package final override func willStart() {
    guard hasDependencies, !isCancelled, !startsAfterFailedDependencies else { return }
    for dependency in dependencies {
      guard let failure = dependency.failureForDependents, !isFinishClaimed else { continue }
      return finish(throwing: failure)
    }
  }

  package final override var failure: (any Error)? {
    guard case .failure(let error)? = result else { return nil }
    return error
  }
}

// Outside the generic class, where each use would look up its type at run time.
private struct ResultOperationSettings {
  var timeout: Duration?
  var startsAfterFailedDependencies = false
  var cancelTimer: (@Sendable () -> Void)?
  var hasTimedOut = false
}
