internal import Locking
internal import Synchronization

/// One run of ``TCPListener/serve(maxConnections:gracePeriod:on:executor:onError:_:)``.
final class Serving: Sendable {
  /// While a server stops, a client that has been silent for so long counts as idle.
  private static let idleTime = Duration.milliseconds(250)
  private static let idleCheckInterval = Duration.milliseconds(25)

  private enum Phase {
    case serving
    /// Nothing is accepted any more; handlers go on for a while.
    case draining
    /// Whatever is left is to end now.
    case over
  }

  private struct State {
    var phase = Phase.serving
    var streams: [ObjectIdentifier: StreamCore] = [:]
    var handlers: Task<Void, Never>?
    var drainTimer: TimerCore?
    var whenEmpty: UnsafeContinuation<Void, Never>?

    /// Who waits for the last stream, when there is none.
    mutating func takeWaiterIfEmpty() -> UnsafeContinuation<Void, Never>? {
      streams.isEmpty ? whenEmpty.take() : nil
    }
  }

  private let listener: TCPListener
  private let grace: Duration
  private let group: EventLoopGroup?
  private let executor: (any TaskExecutor)?
  private let onError: (@Sendable (any Error, TCPStream) -> Void)?
  private let handler: @Sendable (TCPStream) async throws -> Void
  private let state = Lock(State())

  init(
    _ listener: TCPListener, grace: Duration, group: EventLoopGroup?, executor: (any TaskExecutor)?,
    _ onError: (@Sendable (any Error, TCPStream) -> Void)?,
    _ handler: @escaping @Sendable (TCPStream) async throws -> Void
  ) {
    self.listener = listener
    self.grace = grace
    self.group = group
    self.executor = executor
    self.onError = onError
    self.handler = handler
  }

  private var phase: Phase { state.withLock { $0.phase } }

  /// Accepts until it is stopped, and returns when everything has ended.
  func run() async throws {
    let end = Lock<(any Error)?>(nil)
    // Not a child: cancelling it means the end of the grace period.
    let handlers = Task(executorPreference: listener.loop) {
      await withDiscardingTaskGroup { handlers in
        let error = await self.acceptAll { stream in
          handlers.addTask(executorPreference: self.executor ?? stream.loop) {
            await self.handle(stream)
          }
        }
        end.withLock { $0 = error }
        // Whoever comes now is refused instead of waiting for nobody.
        await self.listener.close()
      }
    }
    let isLate = state.withLock {
      $0.handlers = handlers
      return $0.phase == .over
    }
    if isLate { handlers.cancel() }
    await handlers.value
    let isStopped = phase != .serving
    if isStopped { await waitUntilStreamsAreGone() }
    over()
    if isStopped { throw CancellationError() }
    if let error = end.withLock({ $0 }) { throw error }
  }

  // MARK: Accepting

  /// - Returns: Why it ended; `nil` if the listener was closed.
  private func acceptAll(_ start: (TCPStream) -> Void) async -> (any Error)? {
    while true {
      do {
        start(try await accept(on: group?.next() ?? listener.loop))
      } catch is StreamClosed {
        return nil
      } catch let error as IOError {
        if await listenerHasEnded() { return error }
        // It concerns one client, which is gone.
        Report.send("\(error)")
      } catch is EventLoopClosed {
        // A loop of the group may have been shut down just now; the others go on.
        guard group?.isOpen == true, !(await listenerHasEnded()) else { return EventLoopClosed() }
      } catch {
        return error
      }
    }
  }

  // A loop that takes no work is shut down, which has ended its listeners.
  private func listenerHasEnded() async -> Bool {
    (try? await listener.loop.run { [core = listener.core] in core.hasEnded }) ?? true
  }

  /// The stream is among those of `state`, whoever cancels what.
  private func accept(on loop: EventLoop) async throws -> TCPStream {
    let core = listener.core
    let ticket = listener.nextTicket()
    return try await core.loop.wait { continuation in
      core.accept(ticket: ticket, on: loop.core) { result in
        continuation.resume(
          with: result.map { stream in
            self.add(stream)
            return TCPStream(stream, on: loop)
          })
      }
    } cancel: {
      core.cancelAccept(ticket)
    }
  }

  /// Called on the thread of the stream's loop.
  private func add(_ stream: StreamCore) {
    let other = stream.whenGone
    stream.whenGone = {
      other?()
      self.remove(ObjectIdentifier(stream))
    }
    let phase = state.withLock {
      $0.streams[ObjectIdentifier(stream)] = stream
      return $0.phase
    }
    if phase != .serving { stream.isDraining.store(true, ordering: .relaxed) }
    if phase == .over { stream.abort() }
  }

  private func remove(_ stream: ObjectIdentifier) {
    let waiter = state.withLock {
      $0.streams[stream] = nil
      return $0.takeWaiterIfEmpty()
    }
    waiter?.resume()
  }

  // MARK: Handlers

  private func handle(_ stream: TCPStream) async {
    do {
      try await stream.attended { try await handler(stream) }
      await stream.close()
    } catch {
      stream.abort()
      if isOfInterest(error) { tell(error, stream) }
    }
  }

  /// Whether the error is of the handler's own making.
  private func isOfInterest(_ error: any Error) -> Bool {
    switch phase {
    case .serving: true
    case .draining: !(error is CancellationError)
    case .over: !(error is CancellationError || error is StreamClosed)
    }
  }

  private func tell(_ error: any Error, _ stream: TCPStream) {
    if let onError { return onError(error, stream) }
    Report.send("serving \(stream.peerAddress?.description ?? "a client"): \(error)")
  }

  // MARK: Stopping

  /// Any thread.
  func stop() {
    let streams: [StreamCore]? = state.withLock {
      guard $0.phase == .serving else { return nil }
      $0.phase = .draining
      return Array($0.streams.values)
    }
    guard let streams else { return }
    for stream in streams { stream.isDraining.store(true, ordering: .relaxed) }
    let core = listener.core
    let deadline = Deadline(after: grace)
    let isRunning = core.loop.perform {
      core.close {}
      self.drain(until: deadline)
    }
    if !isRunning { endGrace() }
  }

  /// Ends idle clients now and then. Loop thread only.
  private func drain(until deadline: Deadline) {
    let timer = TimerCore(loop: listener.core.loop, survivesShutdown: true)
    let isTooLate = state.withLock {
      $0.drainTimer = timer
      return $0.phase != .draining
    }
    if isTooLate { return }
    timer.whenClosed = { self.endGrace() }
    endIdle(until: deadline, timer)
  }

  private func endIdle(until deadline: Deadline, _ timer: TimerCore) {
    guard Deadline.now < deadline else { return endGrace() }
    for stream in state.withLock({ Array($0.streams.values) }) {
      stream.loop.perform { stream.endInput(ifSilentFor: Serving.idleTime) }
    }
    let next = min(deadline, Deadline(after: Serving.idleCheckInterval))
    timer.arm(next) { self.endIdle(until: deadline, timer) }
  }

  private func endGrace() {
    let (handlers, streams) = over()
    handlers?.cancel()
    for stream in streams { stream.loop.perform { stream.abort() } }
  }

  /// Lets go of the timer. Any thread.
  @discardableResult private func over() -> (Task<Void, Never>?, [StreamCore]) {
    let (timer, handlers, streams) = state.withLock {
      $0.phase = .over
      return ($0.drainTimer.take(), $0.handlers, Array($0.streams.values))
    }
    if let timer {
      timer.loop.perform {
        timer.whenClosed = nil
        timer.discard()
      }
    }
    return (handlers, streams)
  }

  private func waitUntilStreamsAreGone() async {
    await withUnsafeContinuation { continuation in
      let waiter = state.withLock {
        $0.whenEmpty = continuation
        return $0.takeWaiterIfEmpty()
      }
      waiter?.resume()
    }
  }
}
