/// `Task(executorPreference: loop)` and an actor whose `unownedExecutor` is the loop's run on the loop thread.
///
/// Jobs that the loop thread enqueues itself go to a list of its own, without a lock or a wake-up, and run before the loop
/// polls again. An actor must hold the loop it runs on, and has its executor from ``asUnownedSerialExecutor()``. Once the loop is
/// closed, the rest of its tasks run on a private serial queue, still one at a time, and whatever they ask of the loop fails with
/// ``EventLoopClosed``.
extension EventLoop: TaskExecutor, SerialExecutor {
  public func enqueue(_ job: consuming ExecutorJob) { core.enqueue(UnownedJob(job)) }

  public func asUnownedSerialExecutor() -> UnownedSerialExecutor {
    UnownedSerialExecutor(ordinary: isolation)
  }

  public func asUnownedTaskExecutor() -> UnownedTaskExecutor {
    UnownedTaskExecutor(ordinary: self)
  }

  /// Makes `assumeIsolated` and `preconditionIsolated` of an actor on this loop work for plain code on the loop thread.
  public func checkIsolated() { isolation.checkIsolated() }

  public func isIsolatingCurrentContext() -> Bool? { core.isIsolated }
}

/// What an actor on a loop has as its executor. An object of its own, for the loop could not see whether it gets the job of a task or of an
/// actor.
final class LoopIsolation: SerialExecutor {
  private let core: LoopCore

  init(_ core: LoopCore) { self.core = core }

  func enqueue(_ job: consuming ExecutorJob) { core.enqueueIsolated(UnownedJob(job)) }

  func asUnownedSerialExecutor() -> UnownedSerialExecutor { UnownedSerialExecutor(ordinary: self) }

  func checkIsolated() {
    trapUnless(core.isIsolated, "This code must run on its event loop's thread.")
  }

  func isIsolatingCurrentContext() -> Bool? { core.isIsolated }
}
