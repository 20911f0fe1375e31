internal import CUV
package import Dispatch
internal import Synchronization

extension EventLoop {
  /// Runs the main loop on the main thread until ``stop()``, together with `DispatchQueue.main`, `OperationQueue.main` and
  /// `@MainActor` work.
  ///
  /// Main thread only, ``main`` only, and not inside itself: anything else traps with a message. It may be called again
  /// after it returned; what was not finished goes on then. For programs with an ordinary `main`: one whose `main` is
  /// `async` has given its main thread away already. SIGPIPE is blocked on the main thread meanwhile, which a child process
  /// started from it inherits.
  @available(
    *, noasync, message: "run blocks the main thread; call it from a main that is not async"
  )
  public func run() {
    trapUnless(
      self === EventLoop.main,
      "EventLoop.run() is for EventLoop.main; every other loop runs on a thread of its own.")
    trapUnless(isMainThread(), "EventLoop.main.run() must be called on the main thread.")
    MainRun.shared.enter()
    defer { MainRun.shared.leave() }
    let mask = BlockedBrokenPipe()
    defer { mask.restore() }
    MainRun.shared.attachMainQueue(to: core)
    core.runUntilStopped()
  }

  /// Makes ``run()`` return at the end of the loop's turn, or the next one if none is running.
  ///
  /// Any thread; ``main`` only.
  public func stop() {
    trapUnless(
      self === EventLoop.main,
      "EventLoop.stop() is for EventLoop.main; end every other loop by shutdown.")
    core.perform { [core] in core.stop() }
  }
}

extension LoopCore {
  /// To be called when there is new work for the main loop from another thread: says so if nobody seems to run the loop. In a program whose
  /// `main` is `async` nobody ever will. Any thread.
  func workForMainLoopWaits() {
    guard !isRunning.load(ordering: .relaxed), !isReported.exchange(true, ordering: .relaxed)
    else { return }
    DispatchQueue.global().asyncAfter(deadline: .now() + .seconds(2)) { [self] in
      if isRunning.load(ordering: .relaxed) { return isReported.store(false, ordering: .relaxed) }
      Report.send(
        "EventLoop.main has work, but the main thread is not in EventLoop.main.run(); a program whose main is async uses EventLoop.shared"
      )
    }
  }
}

/// Whether somebody has been told, or is about to be, that the main loop does not run.
private let isReported = Atomic<Bool>(false)

/// What the runs of the main loop have in common.
// Unchecked: touched on the main thread only, which `run` asserts.
private final class MainRun: @unchecked Sendable {
  static let shared = MainRun()

  private var isRunning = false
  private var mainQueue: MainQueueHandle?

  func enter() {
    trapUnless(
      !isRunning, "EventLoop.main.run() was called inside itself; it is running already.")
    isRunning = true
  }

  func leave() { isRunning = false }

  func attachMainQueue(to core: LoopCore) {
    guard mainQueue == nil else { return }
    let handle = MainQueueHandle(loop: core)
    handle.start()
    mainQueue = handle
  }
}

/// The queue for operations that start on the main loop's thread, whichever runs that thread.
///
/// Not the main queue itself, which on Linux is told of each block by a system call. This one is put into the main queue
/// once, when it gets its first block.
package enum MainLoopQueue {
  fileprivate static let queue = DispatchQueue(label: "swift-uv.main-loop", target: .main)
  private static let use = Atomic<Bool>(false)

  /// Any thread.
  package static var shared: DispatchQueue {
    use.store(true, ordering: .relaxed)
    return queue
  }

  /// Whether anybody has asked for it.
  fileprivate static var isUsed: Bool { use.load(ordering: .relaxed) }
}

/// Runs libdispatch's main queue when it has work, as Foundation's run loop does.
private final class MainQueueHandle: HandleCore, @unchecked Sendable {
  // Unchecked: as HandleCore.
  private enum EndMark { case none, queued, reached }

  private let descriptor = _dispatch_get_main_queue_handle_4CF()
  private var endMark = EndMark.none

  private var poll: UnsafeMutablePointer<uv_poll_t> {
    memory.assumingMemoryBound(to: uv_poll_t.self)
  }

  init(loop: LoopCore) { super.init(loop: loop, size: MemoryLayout<uv_poll_t>.size) }

  func start() {
    let status = uv_poll_init(loop.uv, poll, descriptor)
    trapUnless(status == 0, "The main queue cannot be polled: \(IOError(status, "poll"))")
    opened()
    uv_poll_start(poll, CInt(UV_READABLE.rawValue), mainQueueHasWork)
    loop.runOther = { [unowned self] in runMainQueueIfReady() }
  }

  /// Runs what is queued, without a way through the poll, when there are operations on this thread: one often starts the next.
  private func runMainQueueIfReady() -> Bool {
    var count: eventfd_t = 0
    guard MainLoopQueue.isUsed, eventfd_read(descriptor, &count) == 0 else { return false }
    runMainQueue()
    return true
  }

  /// Runs what is queued now. What that queues has its turn when I/O has had its own: the main queue sees to it, but
  /// ``MainLoopQueue`` would go on until it is empty, so a block at its end suspends it.
  func runMainQueue() {
    if endMark == .none, MainLoopQueue.isUsed {
      endMark = .queued
      MainLoopQueue.queue.async { [self] in
        MainLoopQueue.queue.suspend()
        endMark = .reached
      }
    }
    // After the mark, which makes it readable too.
    var count: eventfd_t = 0
    eventfd_read(descriptor, &count)
    _dispatch_main_queue_callback_4CF(nil)
    // A mark that was not reached is still queued: somebody else has suspended the queue.
    if endMark == .reached {
      endMark = .none
      MainLoopQueue.queue.resume()
    }
  }
}

private func mainQueueHasWork(
  _ handle: UnsafeMutablePointer<uv_poll_t>?, _ status: CInt, _ events: CInt
) {
  withHandleCore(handle!.pointee.data, as: MainQueueHandle.self) { main in
    // What is left when the run was asked to end is for the next one.
    if !main.loop.isStopping { main.runMainQueue() }
  }
}
