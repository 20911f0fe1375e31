internal import CUV

extension StreamCore {
  /// How long a closed stream waits for the peer to go on sending or to close as well, and how long at most.
  private var lingerIdle: Duration { wasSilent ? .milliseconds(250) : .seconds(2) }
  private static let lingerLimit = Duration.seconds(30)

  /// Sends what was written and FIN, then calls `completion`; the descriptor follows when the peer has closed too, or has been
  /// silent for two seconds.
  ///
  /// Bytes that arrive meanwhile are thrown away: closing a socket with unread bytes would make the kernel reset the connection,
  /// and the peer could lose the end of what we sent. What is not sent within `timeout` fails, and the connection is reset.
  package func close(timeout: Duration, _ completion: @escaping @Sendable () -> Void) {
    loop.preconditionIsCurrent()
    switch life {
    case .lingering, .ended:
      return phase == .closing ? closeCompletions.append(completion) : completion()
    case .flushing:
      return closeCompletions.append(completion)
    case .open: break
    }
    guard isOpen else { return completion() }
    closeCompletions.append(completion)
    beginClosing(within: timeout)
  }

  private func beginClosing(within timeout: Duration) {
    // First of all, so that the completions that follow find the stream closed.
    life = .flushing
    timeouts?.discard()  // Closing has limits of its own.
    inbound.removeAll()
    if case .broken = sending { return reset(StreamClosed("write")) }
    armCloseTimer(after: timeout) { [self] in reset(IOError(.timedOut, "close", subject)) }
    // The peer may read our answer only after it has sent everything, so that must have somewhere to go.
    startReading()
    failReader(StreamClosed("read"))
    shutdownSending { _ in }
    sendingEndedWhileClosing()
  }

  /// Resets the connection and forgets what was not sent.
  package func abort() {
    loop.preconditionIsCurrent()
    reset(StreamClosed("write"))
  }

  func reset(_ reason: any Error) {
    if isOpen, life != .ended {
      var descriptor: CInt = -1
      var linger = CUV.linger(l_onoff: 1, l_linger: 0)
      // With a linger time of zero, close sends RST. libuv's own reset refuses while a shutdown is under way.
      if uv_fileno(handle, &descriptor) == 0 {
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout<linger>.size))
      }
    }
    end(reason)
  }

  /// Closes the descriptor now. Whatever still waits ends with `reason`, and before the completions of `close`.
  package func end(_ reason: any Error) {
    guard isOpen, life != .ended else { return }
    if life == .open || reason is EventLoopClosed, !(reason is StreamClosed) { failure = reason }
    life = .ended
    endReason = reason
    closeTimer?.discard()
    closeTimer = nil
    timeouts?.discard()
    closeHandle()
    inbound.removeAll()
    failReader(closedError("read"))
    failWrites(reason)
  }

  /// What a call gets that comes too late.
  func closedError(_ operation: String) -> any Error {
    failure ?? StreamClosed(operation)
  }

  /// A read has waited for as long as it may.
  func readIsLate() { failReader(IOError(.timedOut, "read", subject)) }

  private func failReader(_ error: any Error) {
    guard let reader else { return }
    self.reader = nil
    fail(reader, error)
  }

  // MARK: Flushing and lingering

  /// To be called when the sending side has finished or broken.
  func sendingEndedWhileClosing() {
    guard life == .flushing else { return }
    switch sending {
    case .open, .shuttingDown: return
    case .broken(let error): return reset(error)
    case .finished: break
    }
    if case .ended = reading { return end(StreamClosed("write")) }
    life = .lingering
    armCloseTimer(after: lingerIdle) { [self] in end(StreamClosed("write")) }
    lingerDeadline = Deadline(after: StreamCore.lingerLimit)
    startReading()
    tellClosed()  // At the end, because the completions may abort.
  }

  /// To be called when bytes arrive that nobody wants.
  func lingerGoesOn() {
    guard life == .lingering else { return }
    let deadline = min(Deadline(after: lingerIdle), lingerDeadline)
    closeTimer?.arm(deadline) { [self] in end(StreamClosed("write")) }
  }

  /// To be called when the peer has closed its side or the connection has failed.
  func inputEndedWhileClosing() {
    guard life == .lingering else { return }
    end(StreamClosed("write"))
  }

  private func armCloseTimer(after delay: Duration, _ fire: @escaping () -> Void) {
    let timer = closeTimer ?? TimerCore(loop: loop, survivesShutdown: true)
    closeTimer = timer
    timer.arm(Deadline(after: delay), fire)
  }

  private func tellClosed() {
    let completions = closeCompletions
    closeCompletions = []
    for completion in completions { loop.complete(completion) }
  }

  /// The handle is closed; its pending requests have had their callbacks.
  func handleIsClosed() {
    tellClosed()
    let gone = whenGone
    whenGone = nil
    gone?()
  }
}
