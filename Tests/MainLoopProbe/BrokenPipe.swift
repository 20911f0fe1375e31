import Glibc
import UV

/// Whose SIGPIPE is whose. The loop blocks it for its run and leaves the rest to the program.
enum BrokenPipe: String {
  case theProgramsHandlerStaysItsOwn
  case aPendingSignalDoesNotEndTheProgram
  case aBlockedSignalStaysBlocked

  func run() throws {
    switch self {
    case .theProgramsHandlerStaysItsOwn: try handlerStays()
    case .aPendingSignalDoesNotEndTheProgram: try pendingSignal()
    case .aBlockedSignalStaysBlocked: try blockedStays()
    }
  }
}

// Written by the handler, on the main thread.
nonisolated(unsafe) private var signalsHandled = 0

private func handlerStays() throws {
  signal(SIGPIPE) { _ in signalsHandled += 1 }
  try writeToABrokenPipeInARun()
  check(signalsHandled == 0, "the loop's own signal is nobody's business")
  writeToABrokenPipe()
  check(signalsHandled == 1, "the handler is back after the run")
}

private func pendingSignal() throws {
  signal(SIGPIPE, SIG_DFL)
  try writeToABrokenPipeInARun()  // Being alive afterwards is the claim.
  check(!isBlocked(), "the signal is not blocked after the run")
}

private func blockedStays() throws {
  var set = sigset_t()
  sigemptyset(&set)
  sigaddset(&set, SIGPIPE)
  pthread_sigmask(SIG_BLOCK, &set, nil)
  try writeToABrokenPipeInARun()
  check(isBlocked(), "the signal is blocked as before")
}

private func writeToABrokenPipeInARun() throws {
  try EventLoop.main.execute {
    check(isBlocked(), "the signal is blocked in the run")
    writeToABrokenPipe()
    EventLoop.main.stop()
  }
  EventLoop.main.run()
}

private func writeToABrokenPipe() {
  var ends: [CInt] = [0, 0]
  check(pipe(&ends) == 0, "there is a pipe")
  close(ends[0])
  check(write(ends[1], "x", 1) == -1 && errno == EPIPE, "the pipe is broken")
  close(ends[1])
}

private func isBlocked() -> Bool {
  var set = sigset_t()
  pthread_sigmask(SIG_BLOCK, nil, &set)
  return sigismember(&set, SIGPIPE) == 1
}
