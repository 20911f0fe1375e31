public import Foundation
internal import Locking
internal import UV

/// Operations that act as one: it starts them, and finishes when all of them have.
///
/// ```swift
/// let exchange = GroupOperation(connect, send, receive)  // With their own dependencies among them.
/// report.addDependency(exchange)
/// queue.add(exchange, report)
/// ```
///
/// - Ownership: the operations belong to the group, which puts them into its own queue when it starts. They are new: in no queue and not
///   started. They are released when the group has finished.
/// - Failing: with the first failure, after which the others are cancelled, or, if they are to go on, with all of them as
///   ``GroupFailed``. Of an operation that is no ``AsynchronousOperation`` only cancellation counts as failure.
/// - Cancelling, or running out of ``ResultOperation/timeout``, cancels the operations. The group then waits for them to finish, so that
///   nothing of it is still running when what depends on it starts. A group that is cancelled before its start, or finished by hand,
///   cancels its operations too, and does not wait.
public final class GroupOperation: ResultOperation<Void>, ProgressReporting, @unchecked Sendable {
  // Unchecked: as ResultOperation; `state` is guarded, `progress` and the queue may be used on any thread.

  /// What a failure means for the others.
  public enum FailurePolicy: Sendable {
    case cancelsOthers
    case letsOthersGoOn
  }

  private struct State {
    var operations: [Operation]
    var isStarted = false
    var unfinishedCount: Int
    var failures: [any Error] = []
  }

  private let queue: OperationQueue
  private let failurePolicy: FailurePolicy
  private let state: Lock<State>

  /// Counts the operations that have finished. Cancelling it cancels the group.
  public let progress: Progress

  /// - Parameters:
  ///   - failurePolicy: What happens when one fails.
  ///   - queue: Where the operations run; the group needs it to itself if it shall keep a limit. Not the queue that the group is in, when
  ///     that one has a limit: the group would hold the place that its operations wait for.
  public init(
    _ operations: [Operation], aFailure failurePolicy: FailurePolicy = .cancelsOthers,
    on queue: OperationQueue = OperationQueue()
  ) {
    self.queue = queue
    self.failurePolicy = failurePolicy
    state = Lock(State(operations: operations, unfinishedCount: operations.count))
    progress = Progress(totalUnitCount: Int64(operations.count))
    super.init()
    progress.cancellationHandler = { [weak self] in self?.cancel() }
  }

  /// A group on a queue of its own, with the first failure cancelling the others.
  public convenience init(_ operations: Operation...) { self.init(operations) }

  public override func main() {
    let operations = state.withLock { state in
      state.isStarted = true
      return state.operations
    }
    if operations.isEmpty { return finish() }
    for operation in operations { operation.whenItHasFinished { self.operationFinished($0) } }
    queue.add(operations)
  }

  private func operationFinished(_ operation: Operation) {
    let failure = operation.failureForDependents
    let (isFirstFailure, isLast) = state.withLock { state in
      if let failure { state.failures.append(failure) }
      state.unfinishedCount -= 1
      progress.completedUnitCount += 1  // Under the lock: two at once would lose one.
      return (failure != nil && state.failures.count == 1, state.unfinishedCount == 0)
    }
    if isLast { return finish(outcome) }
    if isFirstFailure && failurePolicy == .cancelsOthers { cancelOperations() }
  }

  private var outcome: Result<Void, any Error> {
    let failures = state.withLock { $0.failures }
    guard let first = failures.first else { return .success(()) }
    if isStopRequested { return .failure(stopError) }
    return .failure(failurePolicy == .cancelsOthers ? first : GroupFailed(errors: failures))
  }

  private func cancelOperations() {
    for operation in state.withLock({ $0.operations }) { operation.cancel() }
  }

  public override func didCancel() { cancelOperations() }

  package override var finishesWhenStopped: Bool { false }

  public override func releaseResources() {
    let (operations, isStarted) = state.withLock { state in
      defer { state.operations = [] }
      return (state.operations, state.isStarted)
    }
    let unfinished = operations.filter { !$0.isFinished }
    // There are some if the group has never started, or somebody else has finished it. All are held until all have finished: one of
    // Foundation's that is cancelled finishes before what it depends on, which still points at it.
    for operation in unfinished {
      operation.cancel()
      operation.whenItHasFinished { _ in withExtendedLifetime(operations) {} }
    }
    // Nobody else will start them, and somebody may wait for one.
    if !isStarted { queue.addOperations(unfinished, waitUntilFinished: false) }
  }
}

/// What the operations of a ``GroupOperation`` failed with, in the order in which they failed.
public struct GroupFailed: Error, CustomStringConvertible {
  public let errors: [any Error]

  public init(errors: [any Error]) { self.errors = errors }

  public var description: String {
    "\(errors.count) of the group's operations failed: "
      + errors.map { "\($0)" }.joined(separator: "; ")
  }
}
