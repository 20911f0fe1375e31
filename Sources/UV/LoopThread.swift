internal import CUV

/// Starts a detached thread that runs `body`, with SIGPIPE blocked for that thread.
///
/// libuv leaves SIGPIPE to the application: a TCP write to a peer that is gone raises it on the writing thread, and
/// unless it is blocked or handled it ends the process. Blocking it here leaves the process's own handlers as they are.
func startLoopThread(_ body: @escaping @Sendable () -> Void) throws(IOError) {
  let context = Unmanaged.passRetained(ThreadBody(run: body))  // Released in loopThreadMain.
  var attributes = pthread_attr_t()
  pthread_attr_init(&attributes)
  defer { pthread_attr_destroy(&attributes) }
  pthread_attr_setdetachstate(&attributes, CInt(PTHREAD_CREATE_DETACHED))
  var thread = pthread_t()
  let status = pthread_create(&thread, &attributes, loopThreadMain, context.toOpaque())
  guard status == 0 else {
    context.release()  // Refused: the thread will never run.
    throw IOError(errno: status, "start event loop thread")
  }
}

private final class ThreadBody: Sendable {
  let run: @Sendable () -> Void
  init(run: @escaping @Sendable () -> Void) { self.run = run }
}

private func loopThreadMain(_ context: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
  let body = Unmanaged<ThreadBody>.fromOpaque(context!).takeRetainedValue()
  pthread_setname_np(pthread_self(), "uv-loop")
  _ = BlockedBrokenPipe()
  body.run()
  return nil
}

/// SIGPIPE blocked on the calling thread, until ``restore()``.
struct BlockedBrokenPipe {
  private let wasBlocked: Bool

  init() {
    var before = sigset_t()
    var pipe = BlockedBrokenPipe.set
    pthread_sigmask(SIG_BLOCK, &pipe, &before)
    wasBlocked = sigismember(&before, SIGPIPE) == 1
  }

  /// Unblocks the signal if it was not blocked before. Call on the same thread.
  func restore() {
    guard !wasBlocked else { return }
    var pipe = BlockedBrokenPipe.set
    // One that is pending would be delivered by unblocking it, and it was ours.
    var now = timespec()
    while sigtimedwait(&pipe, nil, &now) == SIGPIPE {}
    pthread_sigmask(SIG_UNBLOCK, &pipe, nil)
  }

  private static var set: sigset_t {
    var set = sigset_t()
    sigemptyset(&set)
    sigaddset(&set, SIGPIPE)
    return set
  }
}

/// Whether this is the thread that runs `main`.
func isMainThread() -> Bool { gettid() == getpid() }
