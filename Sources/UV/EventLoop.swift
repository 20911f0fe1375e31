internal import Dispatch

/// One thread, one libuv loop, and everything that lives on it.
///
/// Timers, streams and name look-ups belong to a loop: their callbacks run on its thread, and so does every task or actor
/// that has the loop as its executor. `EventLoop()` starts a thread of its own, ``shared`` is one made on first use, and
/// ``main`` is driven by the main thread.
///
/// Any thread may call anything here. A loop that is dropped is shut down without grace; what lives on it keeps the loop
/// alive as long as somebody holds it. A loop does not survive `fork` without `exec`, as libuv's do not.
public final class EventLoop: Sendable {
  package let core: LoopCore
  let isolation: LoopIsolation
  private let isPermanent: Bool

  /// Starts a loop on a thread of its own.
  ///
  /// - Throws: ``IOError`` if the system has no descriptor or thread left.
  public convenience init() throws(IOError) {
    try self.init(core: LoopCore(belongsToMainThread: false), isPermanent: false)
  }

  private init(core: LoopCore, isPermanent: Bool) throws(IOError) {
    self.core = core
    isolation = LoopIsolation(core)
    self.isPermanent = isPermanent
    // The thread does not exist yet, so nobody else reads these. They are not retained: whoever has this loop as its
    // executor holds it.
    core.executor = asUnownedSerialExecutor()
    core.taskExecutor = asUnownedTaskExecutor()
    guard !core.belongsToMainThread else { return }
    do throws(IOError) {
      try startLoopThread { core.runUntilClosed() }
    } catch {
      // Closed here instead, so that no descriptor is left behind.
      core.shutDown(gracePeriod: .zero)
      core.runUntilClosed()
      throw error
    }
  }

  deinit { core.shutDown(gracePeriod: .zero) }

  /// A loop for everybody, started on first use. It lives as long as the process and cannot be shut down.
  ///
  /// The first use needs a few descriptors and a thread, and ends the program with a message if the system has none left: a server that may
  /// run out of them uses it once at its start.
  public static let shared = permanent(onMainThread: false)

  /// The loop of the main thread. It runs while the main thread is in ``run()``, and nothing on it happens or ends before: no timeout, no
  /// cancellation. A program whose `main` is `async` cannot run it and uses ``shared``; work that waits for two seconds is reported.
  public static let main = permanent(onMainThread: true)

  private static func permanent(onMainThread: Bool) -> EventLoop {
    do {
      return try EventLoop(core: LoopCore(belongsToMainThread: onMainThread), isPermanent: true)
    } catch {
      // A property cannot throw. Those who want the error make a loop of their own.
      fatalError("swift-uv cannot start an event loop: \(error)")
    }
  }

  /// Whether the caller is on this loop's thread.
  public var isCurrent: Bool { core.isCurrent }

  /// Traps with a message unless the caller is on this loop's thread.
  public func preconditionIsCurrent() { core.preconditionIsCurrent() }

  /// Runs `body` on the loop thread soon. Called on the loop thread; any thread may ask.
  ///
  /// Bodies from one thread run in the order in which they were given, never inside this call, and I/O has its turn
  /// between those that keep giving new ones.
  ///
  /// - Throws: ``EventLoopClosed`` once the loop is shutting down. A body that was taken is certain to run.
  public func execute(_ body: @escaping @Sendable () -> Void) throws(EventLoopClosed) {
    guard core.submit(.work(body), .new) else { throw EventLoopClosed() }
  }

  /// Runs `body` on the loop thread and returns what it returns. At once when called on the loop thread.
  ///
  /// Any thread. Cancelling the task has no effect on a body that has been given to the loop.
  ///
  /// - Throws: What `body` throws, or, when called on another thread, ``EventLoopClosed`` once the loop is shutting down.
  public func run<Value: Sendable>(
    _ body: @escaping @Sendable () throws -> Value
  ) async throws -> Value {
    if core.isCurrent { return try body() }
    return try await core.wait(.new) {
      $0.resume(with: Result(catching: body))
    } cancel: {
    }
  }

  /// Ends the loop: refuses new work, stops accepting, lets open streams go on for `gracePeriod`, then closes everything and
  /// returns when nothing is left. Tasks that still have the loop as their executor end on another thread.
  ///
  /// Any thread, the loop's own included; again while it goes on or afterwards, and the shortest grace period counts. What
  /// waits on the loop ends with ``EventLoopClosed``; open files go on until the grace period is over. What runs in
  /// the thread pool cannot be interrupted: the loop waits for the system's resolver, up to its own time limit, for a closure
  /// until it returns, for the opening of a FIFO until it has another end, and says so through ``Report`` after a second.
  /// Cancelling the task has no effect.
  public func shutdown(gracePeriod: Duration = .zero) async {
    beginShutdown(gracePeriod)
    await withUnsafeContinuation { continuation in
      core.finished.notify(queue: .global()) { continuation.resume() }
    }
  }

  /// Like ``shutdown(gracePeriod:)``, blocking the calling thread. Not for async code, nor for the loop's own thread, which
  /// would wait for itself: that traps.
  @available(*, noasync, message: "use shutdown, which does not block")
  public func shutdownAndWait(gracePeriod: Duration = .zero) {
    trapUnless(
      !core.isCurrent,
      "shutdownAndWait on the loop's own thread would wait for itself; use shutdown.")
    beginShutdown(gracePeriod)
    core.finished.wait()
  }

  private func beginShutdown(_ gracePeriod: Duration) {
    trapUnless(
      !isPermanent,
      "EventLoop.shared and EventLoop.main live as long as the process; make a loop of your own.")
    core.shutDown(gracePeriod: gracePeriod)
  }
}
