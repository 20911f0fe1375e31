internal import Foundation
internal import Locking

/// An operation made of a block whose work may go on when the block has returned.
///
/// The block finishes the operation by the closure it gets, or through the operation itself; or it is async, and the operation finishes
/// when it ends. Whoever finishes first counts.
///
/// ```swift
/// let upload = AsyncBlockOperation { operation, finish in
///   client.send(file) { finish() }
/// }
/// let measure = AsyncBlockOperation { operation in device.start { operation.finish() } }
/// let report = AsyncBlockOperation(task: { try await send(report) })
/// ```
///
/// - Threads: a block runs once, on the thread that starts the operation; the body of a task runs on Swift's global executor.
/// - Failing: ``ResultOperation/finish(throwing:)`` of the operation, while `finish` is held if there is one, or an error of the task's body.
/// - Cancelling, or running out of ``ResultOperation/timeout``, finishes the operation at once, so that its queue goes on. The work learns of
///   it from `isCancelled`, ``AsynchronousOperation/onCancel(_:)``, or the cancellation of the task, and may end later, unseen.
/// - Ownership: the block is released when it has run, and without a run when the operation finishes.
public final class AsyncBlockOperation: ResultOperation<Void>, @unchecked Sendable {
  // Unchecked: as ResultOperation; its own variables are guarded.
  private enum Work: Sendable {
    case block(@Sendable (AsyncBlockOperation) -> Void)
    case task(@Sendable () async throws -> Void)
    case runningTask(Task<Void, Never>)
  }

  private let work: Lock<Work?>

  private init(_ work: Work?) { self.work = Lock(work) }

  /// An operation without a block, which finishes when it is started.
  public convenience override init() { self.init(nil) }

  /// Runs `block`, which gets the operation and a closure that finishes it, to be called on any thread.
  ///
  /// When the closure is dropped without having been called, the operation fails with ``OperationAbandoned``, which names the place that
  /// made it; so whoever wants to fail the operation with an error of its own holds the closure too. It may be called more than once;
  /// later calls are ignored.
  public convenience init(
    _ block:
      @escaping @Sendable (
        _ operation: AsyncBlockOperation, _ finish: @escaping @Sendable () -> Void
      ) -> Void,
    file: String = #fileID, line: UInt = #line
  ) {
    self.init(
      .block { operation in
        let handle = FinishHandle(operation, file: file, line: line)
        block(operation) { handle.finish() }
      })
  }

  /// Runs `block`, which gets the operation and has to see to it that ``ResultOperation/finish()`` is called on it, on any thread.
  ///
  /// A block that forgets to leaves its operation running: the operation cannot notice. The other form can.
  public convenience init(_ block: @escaping @Sendable (_ operation: AsyncBlockOperation) -> Void) {
    self.init(.block(block))
  }

  /// Runs `body` in a task of its own, which is cancelled when the operation is cancelled or finishes otherwise.
  public convenience init(task body: @escaping @Sendable () async throws -> Void) {
    self.init(.task(body))
  }

  @available(
    *, unavailable,
    message:
      "A block has to take the operation, or the operation and `finish`; for a task write `task:`."
  )
  public convenience init(_ block: @escaping @Sendable () -> Void) { self.init(nil) }

  public override func main() {
    switch work.withLock({ $0.take() }) {
    case .block(let block): block(self)
    case .task(let body): startTask(body)
    case .runningTask, nil: finish()
    }
  }

  private func startTask(_ body: @escaping @Sendable () async throws -> Void) {
    let task = Task {
      do {
        try await body()
        finish()
      } catch {
        finish(throwing: error)
      }
    }
    work.withLock { $0 = .runningTask(task) }  // Before `main()` returns, and so before the end.
  }

  public override func releaseResources() {
    // It goes when the lock is free: with it may go anything of the user's.
    let left = work.withLock { $0.take() }
    // Cancelled, timed out, or finished by somebody else; when its body has ended this changes nothing.
    if case .runningTask(let task) = left { task.cancel() }
  }
}

/// What the `finish` of a block holds: notices when its last copy is gone.
private final class FinishHandle: Sendable {
  private let operation: AsyncBlockOperation
  private let file: String
  private let line: UInt

  init(_ operation: AsyncBlockOperation, file: String, line: UInt) {
    self.operation = operation
    self.file = file
    self.line = line
  }

  func finish() { operation.finish() }

  deinit {
    if operation.isFinishClaimed { return }
    let error = OperationAbandoned(operation: operation.displayName, file: file, line: line)
    // Elsewhere: whoever drops a closure does not expect to run handlers, and may hold a lock.
    DispatchQueue.global().async { [operation] in operation.finish(throwing: error) }
  }
}
