extension TCPListener {
  /// Accepts clients and runs `handler` for each, until the task is cancelled or the listener is closed.
  ///
  /// Each handler is a child task of its own. When it returns, its stream is closed in order; when it throws, that stream is reset and
  /// the error goes to `onError`, and the others go on.
  ///
  /// Cancelling the task closes the listener at once and lets handlers go on for `gracePeriod`. Meanwhile a client that has been silent for a
  /// quarter of a second counts as idle: a read that waits for it gets the end of the stream; a handler that does not read looks at
  /// ``TCPStream/isDraining``. What is left when the period is over has its task cancelled and its stream reset. This returns when every
  /// handler has returned and, after a cancellation, every stream is gone; a handler that goes on all the same is waited for. Closing the
  /// listener ends accepting alone.
  ///
  /// - Parameters:
  ///   - maxConnections: How many streams may be open at once; further clients wait in the system's queue. With a limit of
  ///     the listener's own, ``Options/maxConnections``, the lower one holds.
  ///   - gracePeriod: How long handlers may go on when the task is cancelled.
  ///   - group: Loops that get the streams in turn; the listener's own loop if `nil`. Those that are shut down are left out.
  ///   - executor: Where handlers run. On their stream's loop if `nil`: there reading and writing need no other thread, and a handler
  ///     that blocks keeps every stream of that loop waiting. For handlers that compute for long, `globalConcurrentExecutor`.
  ///   - onError: Called with what a handler has thrown, there; ``Report`` is told if `nil`. Not for cancellations, nor for what ends
  ///     with the grace period.
  /// - Throws: `CancellationError` when the task was cancelled, ``EventLoopClosed`` when the listener's loop, or all of `group`, shuts
  ///   down, ``IOError`` if the system fails for good.
  public func serve(
    maxConnections: Int? = nil, gracePeriod: Duration = .seconds(5),
    on group: EventLoopGroup? = nil,
    executor: (any TaskExecutor)? = nil,
    onError: (@Sendable (any Error, TCPStream) -> Void)? = nil,
    _ handler: @escaping @Sendable (TCPStream) async throws -> Void
  ) async throws {
    if let maxConnections {
      trapUnless(
        maxConnections > 0, "A server of at most \(maxConnections) connections serves nobody.")
      core.loop.perform { [core] in core.limitConnections(to: maxConnections) }
    }
    let serving = Serving(
      self, grace: gracePeriod, group: group, executor: executor, onError, handler)
    try await withTaskCancellationHandler {
      try await serving.run()
    } onCancel: {
      serving.stop()
    }
  }
}
