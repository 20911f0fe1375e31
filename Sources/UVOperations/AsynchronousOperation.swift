public import Foundation
internal import Locking
import Synchronization
internal import UV

/// An operation that is not finished when `main()` returns: the base for everything asynchronous, with libuv or without.
///
/// Override `main()`, start the work there, and call ``finish()`` once, from any thread. The operation is finished when
/// `main()` has returned and ``finish()`` was called, in whichever order, so the two never overlap.
///
/// ```swift
/// final class Measure: AsynchronousOperation, @unchecked Sendable {
///   override func main() { sensor.read { reading in self.reading = reading; self.finish() } }
/// }
/// ```
///
/// - Threads: everything may be called on any thread.
/// - Starting: a queue starts its operations; ``start()`` starts one that is in no queue. From then until it has finished
///   the operation keeps itself alive, so one whose author never calls ``finish()`` is never deallocated.
/// - Cancelling: an operation that is cancelled before `main()` is started by its queue all the same, at once and
///   whatever it depends on, and finishes without `main()`. A running one hears of it through ``didCancel()`` and
///   ``onCancel(_:)`` and still has to finish.
/// - Finishing releases the dependencies, the handlers and the `completionBlock`. After that `dependencies` is empty.
/// - Progress: the queue's `progress`, when its `totalUnitCount` is set, advances when `main()` returns. Foundation on Linux
///   does not guard it: operations of any kind that run at the same time corrupt it and may crash the process. Set it only
///   for a queue whose `maxConcurrentOperationCount` is 1; a ``GroupOperation`` has a progress of its own without that limit.
// The proof for `Sendable`: the state is atomic, the rest is guarded by locks, and `startingThread` is written once, by
// the thread that won the right to start, before the transition that lets the operation complete and read it.
open class AsynchronousOperation: Operation, @unchecked Sendable {
  /// How many calls of ``finish()`` in this process came after another and were ignored. Any thread.
  package static var ignoredFinishes: Int { ignoredFinishCount.load(ordering: .relaxed) }
  private static let ignoredFinishCount = Atomic<Int>(0)

  private let state = OperationState()
  private let handlers = Lock(FinishHandlers())
  // Nil until there is a dependency.
  private let dependencyList = Lock<DependencyList?>(nil)
  // Written in begin(), read when completing.
  @exclusivity(unchecked) private var startingThread: pthread_t?

  public override init() {}

  deinit { existingDependencies?.end(for: self) }

  // MARK: Overriding

  /// Starts the work. The default finishes at once.
  ///
  /// Called once, on the thread that starts the operation.
  open override func main() { finish() }

  /// Tells the work to stop, because the operation was cancelled (or, with a result, has timed out).
  ///
  /// Called at most once, only after `main()` and never while it runs: on the thread that cancels, or on the starting
  /// thread if that is still in `main()`. The operation may be finishing on another thread meanwhile.
  open func didCancel() {}

  /// Releases what the work needed: its inputs, buffers and callbacks.
  ///
  /// Called once, just before the operation finishes, on the thread that finishes it; also if `main()` never ran.
  open func releaseResources() {}

  // MARK: State

  public final override var isAsynchronous: Bool { true }
  public final override var isExecuting: Bool { state.isExecuting }
  public final override var isFinished: Bool { state.isFinished }
  public final override var isCancelled: Bool { state.isCancelled }

  /// Whether the dependencies have finished, or no longer matter because the operation was cancelled or has started.
  public final override var isReady: Bool {
    state.readinessIsRead()
    if state.isStarted { return true }
    guard super.isReady else {
      state.isReadAsWaiting()
      return false
    }
    if !countReadWhileBeingTold(), state.wasReadAsWaiting {
      whileFoundationIsToldReady { didChangeValue(forKey: "isReady") }
    }
    return true
  }

  /// Runs `body`, which makes Foundation look at the operation on this thread and start it if it is ready.
  ///
  /// A thread of Foundation's reads `isReady` and then stores what it read: one that read too early can store `false` over what another
  /// has stored since. The queue then reads once more and finds the operation ready, but starts it only if it is told. So the read above
  /// tells it, and a second read while it is being told makes us tell it again.
  final func whileFoundationIsToldReady(_ body: () -> Void) {
    var telling = Telling(operation: Unmanaged.passUnretained(self).toOpaque())
    withUnsafeMutablePointer(to: &telling) { operationToldReady.with($0, body) }
    if telling.reads > 1 {
      whileFoundationIsToldReady { didChangeValue(forKey: "isReady") }
    }
  }

  /// Returns whether Foundation is just being told of this operation on this thread, and counts the read then.
  private func countReadWhileBeingTold() -> Bool {
    guard let telling = operationToldReady.value?.assumingMemoryBound(to: Telling.self),
      telling.pointee.operation == Unmanaged.passUnretained(self).toOpaque()
    else { return false }
    telling.pointee.reads += 1
    return true
  }

  /// Called once on a global queue when the operation has finished, and released then: it may mention its operation.
  open override var completionBlock: (@Sendable () -> Void)? {
    get { super.completionBlock }
    set {
      state.completionBlockIsSet()
      super.completionBlock = newValue
    }
  }

  /// Whether somebody has called finish, or may do so no more.
  package final var isFinishClaimed: Bool { state.isFinishClaimed }

  /// Whether there is a timeout, or was: most operations never look at the lock for it.
  package final var hadTimeout: Bool { state.hadTimeout }

  package final func timeoutIsSet() { state.timeoutIsSet() }

  /// To be called before the operation is added to a queue. Foundation's own message does not say which operation it is.
  final func willBeQueued() {
    trapUnless(
      state.enqueue(),
      "\(displayName) is in a queue already, or was: an operation runs once. Await its value, or make a new one."
    )
  }

  final var isStarted: Bool { state.isStarted }

  /// Whether the work was asked to stop.
  package final var isStopRequested: Bool { state.isStopRequested }

  // MARK: Starting

  /// Starts the operation, for one that is in no queue. Any thread.
  ///
  /// While a dependency is unfinished the start is remembered, and happens on a global queue when the last has
  /// finished. Starting an operation again has no effect. One that waits in a queue is the queue's to start: doing it
  /// by hand is a mistake that Foundation traps.
  public final override func start() {
    if state.requestStart() { _ = Unmanaged.passRetained(self) }  // Released in complete().
    if state.isOnItsOwn || isReady { return begin() }
    state.letStartWait()
    if isReady { begin() }  // It became ready meanwhile; begin() lets only one in.
  }

  private func begin() {
    if state.isStarted { return }
    willStart()
    guard let callsMain = state.begin() else { return }
    startingThread = pthread_self()
    if callsMain {
      willCallMain()
    } else {
      super.cancel()  // Foundation's start then leaves `main()` out.
      if state.claimFinish() { finishClaimed(withoutMain: true) }
    }
    if callsMain && state.isOnItsOwn { startWithoutQueue() } else { super.start() }
    act(on: state.mainDidReturn())
  }

  /// Does what Foundation's start does, without what is for queues; that is most of its time.
  ///
  /// For any other operation Foundation's start drives the queue's bookkeeping and progress. It believes the operation
  /// finished when it returns, but asks `isFinished` before it says so, and that is false until it has returned.
  private func startWithoutQueue() {
    // From here Foundation refuses to put the operation into a queue.
    didChangeValue(forKey: "isExecuting")
    main()
  }

  /// Called on the starting thread before the operation starts; finishing here leaves `main()` out.
  ///
  /// May be called twice if two threads start the operation at once.
  package func willStart() {}

  /// Called once, on the starting thread, just before `main()`.
  package func willCallMain() {}

  private func beginWaitingStart() {
    guard state.hasWaitingStart, isReady else { return }
    // Not on this thread: it belongs to a dependency, or to whoever cancels.
    DispatchQueue.global().async { self.begin() }
  }

  // MARK: Finishing

  /// Finishes the operation. Any thread; may be called inside `main()`.
  ///
  /// The first call counts and later ones are ignored. A call that comes before the operation was started is kept, and
  /// the operation then finishes when it is started, without `main()`.
  open func finish() {
    guard claimFinish() else { return }
    requestFinish()
  }

  /// Returns whether the caller may finish the operation, and counts it if it is too late.
  ///
  /// Late after a stop is nobody's mistake: the work had not yet heard of it.
  package final func claimFinish() -> Bool {
    if state.claimFinish() { return true }
    if !state.isStopRequested { Self.ignoredFinishCount.add(1, ordering: .relaxed) }
    return false
  }

  /// Finishes for the one who made the claim and has stored the result.
  package final func requestFinish() { act(on: state.requestFinish()) }

  /// Finishes an operation that was cancelled, or finished by hand, before `main()`; the claim is made.
  package func finishClaimed(withoutMain: Bool) { requestFinish() }

  private func complete() {
    willFinish()
    releaseResources()
    state.markFinished()
    // No lock is held: Foundation reads our properties and tells dependents and the queue, on this thread.
    didChangeValue(forKey: "isFinished")
    // Foundation has handed it to dispatch, and would keep it.
    if state.hadCompletionBlock { super.completionBlock = nil }
    existingDependencies?.end(for: self)
    _ = handlers.withLock { $0.endStopping() }
    runHandlers()
    Unmanaged.passUnretained(self).release()  // Retained in start().
  }

  /// Called once, on the finishing thread, just before the operation is finished.
  package func willFinish() {}

  private func act(on next: OperationState.Next) {
    switch next {
    case .nothing: break
    case .stop: stop()
    case .complete: complete()
    }
  }

  // MARK: Handlers

  /// Calls `body` once when the operation has finished, or at once if it has.
  ///
  /// Handlers are called in the order they were attached, on the thread that finishes the operation, or on a global
  /// queue when that thread is an event loop's and the operation was not started there. They are released then.
  public final func whenFinished(_ body: @escaping @Sendable () -> Void) {
    addHandler { _ in body() }
  }

  package final func addHandler(
    waiter: (any AnyObject & Sendable)? = nil,
    _ run: @escaping @Sendable (AsynchronousOperation) -> Void
  ) {
    let handler = FinishHandlers.Handler(waiter: waiter, run: run)
    if !handlers.withLock({ $0.add(handler) }) { run(self) }
  }

  package final func removeHandlers(of waiter: AnyObject) {
    handlers.withLock { $0.remove(waiter: waiter) }
  }

  /// Whether handlers may run on the thread that finishes. Operations that a loop finishes answer
  /// ``finishesOnStartingThread``.
  package var runsHandlersInline: Bool { true }

  /// Whether this thread is the one that started the operation. Meant for the thread that finishes it.
  package final var finishesOnStartingThread: Bool {
    startingThread.map { pthread_equal($0, pthread_self()) != 0 } ?? false
  }

  private func runHandlers() {
    let isInline = runsHandlersInline
    while let handler = handlers.withLock({ $0.takeNext() }) {
      guard isInline || handler.waiter != nil else { return runOnGlobalQueue(handler) }
      handler.run(self)
    }
  }

  /// Runs `handler`, and then those that come after it, so that the order stays.
  private func runOnGlobalQueue(_ handler: FinishHandlers.Handler) {
    DispatchQueue.global().async {
      handler.run(self)
      self.runHandlers()
    }
  }

  // MARK: Cancelling

  /// Cancels the operation; without effect when it has finished. Any thread.
  public final override func cancel() {
    let (isFirst, next) = state.cancel()
    guard isFirst else { return }
    if !state.isStarted { existingDependencies?.openAll() }
    act(on: next)
  }

  /// Calls `body` when a running operation is cancelled, just before ``didCancel()`` and on its thread.
  ///
  /// There is one such handler: setting another replaces it. Set after ``didCancel()`` was called, it is called at
  /// once. It is released after its call, and when the operation finishes.
  public final func onCancel(_ body: @escaping @Sendable () -> Void) {
    if handlers.withLock({ $0.setStopHandler(body) }).runsNow { body() }
  }

  /// Asks the work to stop as ``cancel()`` does, without marking the operation cancelled.
  package final func requestStop() { act(on: state.requestStop()) }

  private func stop() {
    // Claimed first: what the work says when it hears of the stop is no result.
    let finishes = finishesWhenStopped && state.claimFinish()
    handlers.withLock({ $0.takeStopHandler() })?()
    didCancel()
    if finishes { finishClaimedByStop() }
  }

  /// Whether a stopped operation finishes as soon as ``didCancel()`` has returned, whatever that or the work says.
  package var finishesWhenStopped: Bool { false }

  /// Finishes an operation for which ``finishesWhenStopped`` is true; the claim is made.
  package func finishClaimedByStop() { requestFinish() }

  // MARK: Dependencies

  package final var hasDependencies: Bool { state.hadDependencies }

  /// The list, without a look at the lock for the many operations that have none.
  private var existingDependencies: DependencyList? {
    state.hadDependencies ? dependencyList.withLock { $0 } : nil
  }

  public final override var dependencies: [Operation] { existingDependencies?.operations ?? [] }

  /// Makes the operation wait for `operation`. Any thread; without effect when this operation has finished.
  ///
  /// The operation holds its dependencies until it has finished, and may be dropped at any time before. Operations that depend on each
  /// other in a circle never start; cancelling one of them ends that.
  public final override func addDependency(_ operation: Operation) {
    trapUnless(
      operation !== self, "\(displayName) cannot depend on itself: it would never become ready.")
    let list = dependencyList.withLock { list in
      let existing = list ?? DependencyList()
      list = existing
      return existing
    }
    state.dependencyIsAdded()
    list.add(operation, for: self)
  }

  /// Stops waiting for `operation`. Any thread; without effect when this operation has finished.
  public final override func removeDependency(_ operation: Operation) {
    existingDependencies?.remove(operation, for: self)
  }

  final func addGate(_ gate: DependencyGate) { super.addDependency(gate) }
  final func removeGate(_ gate: DependencyGate) { super.removeDependency(gate) }

  /// Called when one gate fewer is in the way, with locks held, so nothing of the user's runs in here.
  final func gateDidOpen() { beginWaitingStart() }

  /// Why an operation that depends on this one must not run. Meaningful when this one has finished.
  package var failure: (any Error)? { isCancelled ? CancellationError() : nil }

  // MARK: Waiting

  /// Whether waiting for this operation on the current thread would wait for the thread itself.
  package var wouldDeadlock: Bool { false }

  /// Blocks the thread until the operation has finished.
  ///
  /// Traps on the thread of the event loop that has to finish the operation. Async code awaits a result instead.
  @available(*, noasync, message: "Await the operation's value, or use a dependent operation")
  public final override func waitUntilFinished() {
    trapUnless(
      !wouldDeadlock,
      "\(displayName) is finished by this thread's event loop, so waiting here never ends: use whenFinished(_:), "
        + "a dependent operation or `await` instead")
    super.waitUntilFinished()
  }

  /// What messages call this operation: its name, or its type's.
  package final var displayName: String { name ?? String(describing: type(of: self)) }
}

/// An operation whose readiness Foundation is being told of.
private struct Telling {
  let operation: UnsafeMutableRawPointer
  /// How often it was read as ready meanwhile.
  var reads = 0
}

/// The ``Telling`` that is going on on this thread.
private let operationToldReady = ThreadLocal()
