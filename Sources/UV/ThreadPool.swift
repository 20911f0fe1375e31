internal import CUV
internal import Glibc
internal import Locking
internal import Synchronization

/// libuv's thread pool, on which files, name look-ups and blocking closures run, for all loops of the process.
///
/// Threads that somebody else blocks are lost to files, so closures of the user and name look-ups together never get the last one: with
/// four threads, three of them at most. With one thread they share it. What can still take every thread are the files themselves, where
/// the system blocks: opening a FIFO that has no other end, writing to a full one, a network file system that does not answer. A thread
/// that is blocked keeps `exit` waiting, too; `_exit` does not look back.
///
/// See [libuv's thread pool](https://docs.libuv.org/en/v1.x/threadpool.html).
public enum ThreadPool {
  /// Counts of what this package has given to the pool.
  public struct Statistics: Hashable, Sendable {
    /// The threads that the pool has, or will have once it is used.
    public let threads: Int
    /// The requests that threads work on.
    public let running: Int
    /// The requests that wait for a thread.
    public let queued: Int
  }

  private static let state = Lock(ThreadPoolState())
  private static let inUse = Atomic<Bool>(false)
  private static let submitted = Atomic<Int>(0)

  /// Sets how many threads the pool has, 1 to 1024; otherwise it has four, or what the environment's `UV_THREADPOOL_SIZE` says.
  ///
  /// Any thread, but early: it changes the environment, which other threads must not read meanwhile.
  ///
  /// - Throws: ``ThreadPoolInUse`` once something has run in the pool, ``IOError`` with `invalidArgument` for any other number.
  public static func setSize(_ size: Int) throws {
    guard (1...1_024).contains(size) else {
      throw IOError(.invalidArgument, "set thread pool size", "\(size)")
    }
    try state.withLock { state in
      guard !state.isUsed else { throw ThreadPoolInUse(size: state.threads) }
      uv_os_setenv("UV_THREADPOOL_SIZE", "\(size)")
      state.setThreads(size)
    }
  }

  /// The counts of this moment. Any thread; they are not of one instant.
  public static var statistics: Statistics {
    let (threads, waiting) = state.withLock { ($0.threads, $0.waiting) }
    let submitted = submitted.load(ordering: .relaxed)
    return Statistics(
      threads: threads, running: min(submitted, threads),
      queued: max(0, submitted - threads) + waiting)
  }

  // MARK: Requests

  /// Hands a request to libuv by `call`, whose status this returns. Loop thread only.
  static func submit(_ call: () -> CInt) -> CInt {
    let status = inUse.load(ordering: .relaxed) ? call() : submitFirst(call)
    if status == 0 { submitted.add(1, ordering: .relaxed) }
    return status
  }

  /// The first request makes libuv start the threads, which get the signal mask of this one. A file that would become too large, and a
  /// peer that is gone, then make a call fail instead of ending the process.
  private static func submitFirst(_ call: () -> CInt) -> CInt {
    state.withLock { $0.isUsed = true }
    var blocked = sigset_t()
    var before = sigset_t()
    sigemptyset(&blocked)
    sigaddset(&blocked, SIGXFSZ)
    sigaddset(&blocked, SIGPIPE)
    pthread_sigmask(SIG_BLOCK, &blocked, &before)
    defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
    let status = call()
    inUse.store(true, ordering: .relaxed)
    return status
  }

  /// libuv is done with a request.
  static func requestIsDone() { submitted.subtract(1, ordering: .relaxed) }

  // MARK: Requests that may block for long

  /// Takes one of the threads that blocking requests may have.
  ///
  /// - Returns: `nil` if one was free, otherwise the place in the queue. When its turn comes, `begin` is called on the thread of `loop`.
  ///   Whoever has got a thread gives it back by ``releaseThread()``.
  static func takeThread(on loop: LoopCore, _ begin: @escaping @Sendable () -> Void) -> UInt64? {
    state.withLock { $0.takeThread(ThreadPoolState.Waiter(loop: loop, begin: begin)) }
  }

  /// Leaves the queue.
  static func giveUp(_ place: UInt64) { state.withLock { $0.giveUp(place) } }

  static func releaseThread() {
    while let next = state.withLock({ $0.releaseThread() }) {
      // A loop cannot close while a request of it waits here.
      if next.loop.perform(next.begin) { return }
    }
  }
}

/// Who has the threads that blocking requests may have, and who waits for one.
private struct ThreadPoolState {
  struct Waiter: Sendable {
    let loop: LoopCore
    let begin: @Sendable () -> Void
  }

  var isUsed = false
  private(set) var threads = Self.threadsOfEnvironment
  private var taken = 0
  private var waiters: [UInt64: Waiter] = [:]
  private var first: UInt64 = 0
  private var next: UInt64 = 0

  var waiting: Int { waiters.count }

  mutating func setThreads(_ count: Int) { threads = count }

  mutating func takeThread(_ waiter: Waiter) -> UInt64? {
    guard taken >= max(1, threads - 1) else {
      taken += 1
      return nil
    }
    defer { next += 1 }
    waiters[next] = waiter
    return next
  }

  mutating func giveUp(_ place: UInt64) { waiters[place] = nil }

  /// Passes the thread on to the one who waits longest.
  mutating func releaseThread() -> Waiter? {
    while first < next {
      defer { first += 1 }
      if let waiter = waiters.removeValue(forKey: first) { return waiter }
    }
    taken -= 1
    return nil
  }

  /// What libuv will read, by its rules.
  private static var threadsOfEnvironment: Int {
    guard let text = getenv("UV_THREADPOOL_SIZE") else { return 4 }
    let threads = atoi(text)
    // A negative number is a very large one to libuv.
    return threads < 0 ? 1_024 : min(max(Int(threads), 1), 1_024)
  }
}
