internal import CUV
internal import Dispatch
internal import Locking
internal import Synchronization

/// The loop itself: the `uv_loop_t`, the thread that owns it, and the one way in.
///
/// ``EventLoop`` is the public shell. The core lives until the loop has been closed, the shell may go earlier.
// Unchecked: a property says what protects it; those that say nothing are immutable.
package final class LoopCore: @unchecked Sendable {
  let uv: UnsafeMutablePointer<uv_loop_t>
  let inbox = Lock(Inbox())
  let counters = LoopCounters()
  let resumptions = Atomic<UInt8>(0)  // For LoopContinuation.
  let finished = DispatchGroup()  // Left when the loop has closed.
  let isShuttingDown = Atomic<Bool>(false)  // For those who choose among loops; the inbox decides.

  /// Where libuv reads to when no reader has brought memory. The bytes are moved on before the callback returns.
  let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: 65_536, alignment: 64)

  private let wake = zeroed(uv_async_t())
  private let prepare = zeroed(uv_prepare_t())
  private let check = zeroed(uv_check_t())
  private let idle = zeroed(uv_idle_t())
  private let graceTimer = zeroed(uv_timer_t())

  // The `pthread_self()` of the loop's thread, 0 before it runs and after it ended.
  private let thread = Atomic<UInt>(0)
  let belongsToMainThread: Bool
  /// Whether the main thread is in `run()`, for the loop that belongs to it.
  let isRunning = Atomic<Bool>(false)
  private let late: LateJobs

  // Loop thread only, from here on. The hot ones go without the run-time check for overlapping accesses, which costs more than
  // the access: none of theirs spans a call of foreign code.
  @exclusivity(unchecked) private var local: [Job] = []
  @exclusivity(unchecked) private var running: [Job] = []
  @exclusivity(unchecked) private var jobsRun = 0
  @exclusivity(unchecked) private var takesTask = false
  @exclusivity(unchecked) private var takenTask: UnownedJob?
  @exclusivity(unchecked) private var nextTurnJobs: [Job] = []
  @exclusivity(unchecked) private(set) var turn: UInt64 = 0
  @exclusivity(unchecked) private var completionDepth = 0
  @exclusivity(unchecked) private var inlineCompletions = 0
  @exclusivity(unchecked) private var pollReturned: UInt64 = 0
  @exclusivity(unchecked) private(set) var isStopping = false
  /// Runs what the loop's thread has to do besides, before it polls. Returns whether there was something.
  @exclusivity(unchecked) var runOther: (() -> Bool)?
  private var grace: Deadline?
  private var graceIsOver = false
  @exclusivity(unchecked) private var requests = RequestList()
  @exclusivity(unchecked) var executor: UnownedSerialExecutor?
  @exclusivity(unchecked) var taskExecutor: UnownedTaskExecutor?

  init(belongsToMainThread: Bool) throws(IOError) {
    self.belongsToMainThread = belongsToMainThread
    uv = .allocate(capacity: 1)
    late = LateJobs()
    finished.enter()
    let status = uv_loop_init(uv)
    guard status == 0 else {
      finished.leave()
      throw IOError(status, "create event loop")
    }
    let opened = uv_async_init(uv, wake, wakeDidArrive)
    guard opened == 0 else {
      uv_loop_close(uv)
      finished.leave()
      throw IOError(opened, "create event loop")
    }
    // The thread that runs the loop holds a reference.
    uv.pointee.data = Unmanaged.passUnretained(self).toOpaque()
    uv_prepare_init(uv, prepare)
    uv_prepare_start(prepare, pollIsNext)
    uv_check_init(uv, check)
    uv_check_start(check, pollDidReturn)
    uv_idle_init(uv, idle)
    uv_timer_init(uv, graceTimer)
  }

  deinit {
    scratch.deallocate()
    wake.deallocate()
    prepare.deallocate()
    check.deallocate()
    idle.deallocate()
    graceTimer.deallocate()
    uv.deallocate()
  }

  // MARK: Threads

  /// Whether the caller is on the loop's thread.
  package var isCurrent: Bool {
    let owner = thread.load(ordering: .relaxed)
    if owner != 0 { return owner == UInt(pthread_self()) }
    guard belongsToMainThread, isMainThread() else { return false }
    thread.store(UInt(pthread_self()), ordering: .relaxed)
    return true
  }

  package func preconditionIsCurrent() {
    trapUnless(
      isCurrent,
      "This may be called on the event loop's own thread only; use EventLoop.run or execute.")
  }

  /// Whether the caller may act for the loop: on its thread, or, once it has closed, where its late jobs run.
  var isIsolated: Bool { isCurrent || late.isCurrent }

  // MARK: The way in

  /// Queues `job`, or refuses it.
  ///
  /// Any thread. On the loop's own thread there is neither a lock nor a wake-up.
  func submit(_ job: Job, _ kind: Inbox.Kind) -> Bool {
    if isCurrent {
      guard kind == .existing || acceptsNew else { return false }
      if takesTask, case .task(let task) = job {
        takesTask = false
        takenTask = task
      } else {
        local.append(job)
      }
      return true
    }
    // The wake-up is sent under the lock: the loop closes the wake handle only after closing the inbox, so a handle that
    // is closed is never signalled.
    let mustWake = inbox.withLock { inbox -> Bool? in
      let mustWake = inbox.append(job, kind)
      if mustWake == true { uv_async_send(wake) }
      return mustWake
    }
    if mustWake == true, belongsToMainThread { workForMainLoopWaits() }
    return mustWake != nil
  }

  /// Runs `work` on the loop thread: at once when called there, otherwise queued.
  ///
  /// Any thread. For things that exist already and must be able to end.
  ///
  /// - Returns: `false` if the loop has closed, and `work` will never run.
  @discardableResult
  package func perform(_ work: @escaping @Sendable () -> Void) -> Bool {
    if isCurrent {
      work()
      return true
    }
    return submit(.work(work), .existing)
  }

  /// Like ``perform(_:)``, for what is new: refused once the loop is shutting down.
  package func performNew(_ work: @escaping @Sendable () -> Void) -> Bool {
    guard isCurrent else { return submit(.work(work), .new) }
    guard acceptsNew else { return false }
    work()
    return true
  }

  func enqueue(_ job: UnownedJob) {
    if !submit(.task(job), .existing) { late.run(.task(job), for: self) }
  }

  func enqueueIsolated(_ job: UnownedJob) {
    if !submit(.isolated(job), .existing) { late.run(.isolated(job), for: self) }
  }

  /// Whether new handles and requests are welcome. Loop thread only.
  var acceptsNew: Bool { grace == nil }

  /// Whether requests of the thread pool still have time to run. Loop thread only.
  var takesRequests: Bool { !graceIsOver }

  // MARK: Running jobs

  func run(_ job: Job) {
    if case .work(let work) = job { return work() }
    guard let executor, let taskExecutor else {
      // Set before the loop is handed out, so this would be our mistake, and the task can neither run nor be refused.
      fatalError("An event loop was given a task before it had its executor.")
    }
    switch job {
    // Isolated to nobody, which is what the task goes on as: otherwise the runtime queues it again, to leave an isolation that it
    // was never in.
    case .task(let job): unsafe job.runSynchronously(on: taskExecutor)
    case .isolated(let job):
      unsafe job.runSynchronously(isolatedTo: executor, taskExecutor: taskExecutor)
    case .work(let work): work()
    }
  }

  /// Runs what waits for this thread, and what that brings, for a bounded number of rounds, so that I/O has its turn too.
  ///
  /// - Returns: Whether nothing is left. The next job for the inbox then wakes the loop; until then it need not, and for a thread that
  ///   submits often that saves most of the system calls.
  private func runWaiting() -> Bool {
    let limit = jobsRun &+ 1_000
    var rounds = 0
    while rounds < 16, jobsRun < limit {
      rounds += 1
      let ranLocal = runLocal()
      let ranOther = isStopping ? false : runOther?() ?? false
      if !runInbox() && !ranLocal && !ranOther { return nextTurnJobs.isEmpty }
    }
    return false
  }

  private func drainLocal() {
    var rounds = 0
    while rounds < 16, runLocal() { rounds += 1 }
  }

  /// Runs what was queued on this thread. Returns whether there was something.
  private func runLocal() -> Bool {
    if local.isEmpty { return false }
    swap(&local, &running)
    runTaken()
    return true
  }

  /// Runs what is in the inbox now. Returns whether there was something.
  @discardableResult
  fileprivate func runInbox() -> Bool {
    inbox.withLock { $0.take(&running) }
    if running.isEmpty { return false }
    runTaken()
    return true
  }

  private func runTaken() {
    let jobs = running
    running = []
    for job in jobs { run(job) }
    jobsRun &+= jobs.count
    counters.jobs.add(jobs.count)
    if running.isEmpty {
      running = consume jobs
      running.removeAll(keepingCapacity: true)
    }
  }

  /// Calls `body` and then runs the task that it has resumed, if any, ahead of the queue. To be called in callbacks of libuv's, so never
  /// inside a job.
  ///
  /// For tasks that are given bytes: these are still in the processor's cache, and few are in memory at the same time. What is queued by
  /// `execute`, or for an actor, keeps its order.
  func runTaskResumed(by body: () -> Void) {
    takesTask = true
    body()
    takesTask = false
    guard let task = takenTask.take() else { return }
    run(.task(task))
    jobsRun &+= 1
    counters.jobs.add(1)
  }

  /// Runs `work` in the next turn of the loop, after other handles have had theirs. Loop thread only.
  func nextTurn(_ work: @escaping @Sendable () -> Void) {
    nextTurnJobs.append(.work(work))
  }

  /// Calls `body` here and now, or in the next turn when too many completions are nested in each other already: a
  /// completion that starts work that completes at once must not eat the stack. Loop thread only.
  func complete(_ body: @escaping @Sendable () -> Void) {
    guard beginCompletion() else { return nextTurn(body) }
    body()
    endCompletion()
  }

  /// The two halves of ``complete(_:)``, for those who need no closure: whether to call now, and that it was called.
  func beginCompletion() -> Bool {
    guard completionDepth < 16 else { return false }
    completionDepth += 1
    return true
  }

  func endCompletion() { completionDepth -= 1 }

  /// Whether a call on a stream that could complete at once may do so, or too many have in this turn: they are nested in each other
  /// when each is made by the completion of the one before. Loop thread only.
  func mayCompleteInline() -> Bool {
    inlineCompletions += 1
    return inlineCompletions <= 512
  }

  fileprivate func prepareToPoll() {
    let isIdle = runWaiting()
    uv_update_time(uv)  // How long to poll is counted from here, not from before the callbacks.
    counters.iterations.add(1)
    counters.noteTurn(nanoseconds: uv_hrtime() &- pollReturned)
    // An active idle handle makes libuv poll without waiting.
    if isIdle { uv_idle_stop(idle) } else { uv_idle_start(idle) { _ in } }
  }

  fileprivate func finishPoll() {
    // libuv has read its clock right after the poll, before the callbacks.
    pollReturned = uv_now(uv) &* 1_000_000
    turn &+= 1
    inlineCompletions = 0
    if !nextTurnJobs.isEmpty {
      local.append(contentsOf: nextTurnJobs)
      nextTurnJobs.removeAll(keepingCapacity: true)
    }
    drainLocal()
  }

  // MARK: Life

  /// Runs the loop on this thread until it has been shut down, and closes it.
  func runUntilClosed() {
    thread.store(UInt(pthread_self()), ordering: .relaxed)
    pollReturned = uv_hrtime()
    while !isQuiet { uv_run(uv, UV_RUN_DEFAULT) }
    close()
    thread.store(0, ordering: .relaxed)
    finished.leave()
  }

  /// Runs the loop on this thread until ``stop()``.
  func runUntilStopped() {
    thread.store(UInt(pthread_self()), ordering: .relaxed)
    isRunning.store(true, ordering: .relaxed)
    pollReturned = uv_hrtime()
    uv_run(uv, UV_RUN_DEFAULT)
    isRunning.store(false, ordering: .relaxed)
    isStopping = false
  }

  /// Makes the running or else the next run return at the end of its turn. Loop thread only.
  func stop() {
    isStopping = true
    uv_stop(uv)
  }

  /// Refuses new work, lets streams finish for `period`, closes what is left, and ends the loop. Any thread.
  func shutDown(gracePeriod period: Duration) {
    let deadline = Deadline(after: period)
    isShuttingDown.store(true, ordering: .relaxed)
    inbox.withLock { $0.beginDraining() }
    perform { self.drain(until: deadline) }
  }

  private func drain(until deadline: Deadline) {
    grace = min(deadline, grace ?? deadline)
    for request in requests.all where !request.mayFinishDuringShutdown {
      request.loopIsClosing()
    }
    closeHandles { !$0.mayFinishDuringShutdown }
    uv_timer_start(graceTimer, graceDidEnd, LoopCore.ticks(until: grace!, on: uv), 0)
    stopIfQuiet()
  }

  fileprivate func endGrace() {
    graceIsOver = true
    for request in requests.all { request.loopIsClosing() }
    closeHandles { _ in true }
    uv_timer_start(graceTimer, shutdownIsSlow, 1_000, 0)
    stopIfQuiet()
  }

  /// Says what a shutdown waits for: requests that run cannot be interrupted.
  fileprivate func reportWhatIsLeft() {
    let left = requests.all.map(\.purpose).sorted()
    guard !left.isEmpty else { return }
    let more = left.count > 5 ? " and \(left.count - 5) more" : ""
    Report.send(
      "an event loop that shuts down waits for: \(left.prefix(5).joined(separator: ", "))\(more)")
  }

  private func closeHandles(_ isIncluded: (HandleCore) -> Bool) {
    var open: [HandleCore] = []
    // Collected first: closing one may close others, and changes the list that is walked.
    withUnsafeMutablePointer(to: &open) { list in
      uv_walk(uv, collectHandle, list)
    }
    for handle in open where handle.isOpen && isIncluded(handle) { handle.loopIsClosing() }
  }

  private var isQuiet: Bool { grace != nil && counters.live == 0 }

  private func stopIfQuiet() {
    if isQuiet { uv_stop(uv) }
  }

  private func close() {
    // A request that one of the last jobs began would end when nobody runs the task any more that waits for it.
    graceIsOver = true
    runLastJobs()
    closeHandles { _ in true }  // What the last jobs have opened that may use a grace period.
    uv_close(UnsafeMutableRawPointer(wake).assumingMemoryBound(to: uv_handle_t.self), nil)
    uv_close(UnsafeMutableRawPointer(prepare).assumingMemoryBound(to: uv_handle_t.self), nil)
    uv_close(UnsafeMutableRawPointer(check).assumingMemoryBound(to: uv_handle_t.self), nil)
    uv_close(UnsafeMutableRawPointer(idle).assumingMemoryBound(to: uv_handle_t.self), nil)
    uv_close(UnsafeMutableRawPointer(graceTimer).assumingMemoryBound(to: uv_handle_t.self), nil)
    // A shutdown that was asked for again among the last jobs has set libuv's stop flag, which ends one run.
    while uv_run(uv, UV_RUN_DEFAULT) != 0 {}
    let status = uv_loop_close(uv)
    trapUnless(
      status == 0, "An event loop was left with open handles; this is a bug in swift-uv.")
  }

  /// Runs what is queued until nothing is, then closes the inbox. What still comes after a bounded number of rounds goes
  /// where late jobs go.
  private func runLastJobs() {
    for _ in 0..<1_000 {
      runInbox()
      local.append(contentsOf: nextTurnJobs)
      nextTurnJobs.removeAll()
      drainLocal()
      if local.isEmpty, nextTurnJobs.isEmpty, inbox.withLock({ $0.closeIfEmpty() }) { return }
    }
    // Late jobs wait meanwhile: they and these must not run at the same time.
    late.hold { closeInbox() }
  }

  /// Closes the inbox and runs the work that is left; the tasks, also those that the work adds, become late jobs.
  private func closeInbox() {
    inbox.withLock { inbox in
      inbox.take(&running)
      _ = inbox.closeIfEmpty()
    }
    local.append(contentsOf: running)
    running = []
    while !local.isEmpty || !nextTurnJobs.isEmpty {
      let jobs = local + nextTurnJobs
      local = []
      nextTurnJobs = []
      for job in jobs {
        switch job {
        case .task, .isolated: late.run(job, for: self)
        case .work(let work): work()
        }
      }
    }
  }

  // MARK: What lives here

  func handleOpened() { counters.handles.add(1) }

  func handleClosed() {
    counters.handles.add(-1)
    stopIfQuiet()
  }

  func requestStarted(_ request: AnyPoolRequest) {
    requests.insert(request)
    counters.requests.add(1)
  }

  func requestEnded(_ request: AnyPoolRequest) {
    requests.remove(request)
    counters.requests.add(-1)
    stopIfQuiet()
  }

  /// Whole milliseconds from libuv's clock to `deadline`, rounded up so that a timer is never early. Also when the deadline has passed:
  /// of two that fall due in the same millisecond, the one that is armed later must not come first.
  ///
  /// libuv's clock counts whole milliseconds too, and it may be old: it is what `uv_timer_start` adds the ticks to.
  static func ticks(until deadline: Deadline, on uv: UnsafeMutablePointer<uv_loop_t>) -> UInt64 {
    let due = (deadline.nanoseconds + (deadline.isImmediate ? 0 : 999_999)) / 1_000_000
    let now = uv_now(uv)
    return due > now ? due - now : 0
  }
}

/// Memory for one of the loop's own handles, whose `data` is nil, unlike that of a ``HandleCore``.
private func zeroed<Handle>(_ handle: Handle) -> UnsafeMutablePointer<Handle> {
  let pointer = UnsafeMutablePointer<Handle>.allocate(capacity: 1)
  pointer.initialize(to: handle)
  return pointer
}

private func core(_ loop: UnsafeMutablePointer<uv_loop_t>) -> LoopCore {
  Unmanaged<LoopCore>.fromOpaque(loop.pointee.data).takeUnretainedValue()
}

private func wakeDidArrive(_ handle: UnsafeMutablePointer<uv_async_t>?) {
  core(handle!.pointee.loop).runInbox()
}

private func pollIsNext(_ handle: UnsafeMutablePointer<uv_prepare_t>?) {
  core(handle!.pointee.loop).prepareToPoll()
}

private func pollDidReturn(_ handle: UnsafeMutablePointer<uv_check_t>?) {
  core(handle!.pointee.loop).finishPoll()
}

private func graceDidEnd(_ handle: UnsafeMutablePointer<uv_timer_t>?) {
  core(handle!.pointee.loop).endGrace()
}

private func shutdownIsSlow(_ handle: UnsafeMutablePointer<uv_timer_t>?) {
  core(handle!.pointee.loop).reportWhatIsLeft()
}

private func collectHandle(
  _ handle: UnsafeMutablePointer<uv_handle_t>?, _ list: UnsafeMutableRawPointer?
) {
  // The loop's own handles have none.
  guard let data = handle!.pointee.data else { return }
  list!.assumingMemoryBound(to: [HandleCore].self).pointee
    .append(Unmanaged<HandleCore>.fromOpaque(data).takeUnretainedValue())
}
