internal import CUV

/// Who calls a stream, which decides how it may wait.
enum Caller {
  /// On the loop's thread, in the task that ``TCPStream/attended(_:)`` looks after: its waits need no handler of their own.
  case attended
  /// On the loop's thread, in a task that is not cancelled.
  case onLoop
  /// On any other thread, or in a task that is cancelled.
  case elsewhere
}

extension TCPStream {
  /// Runs `body`, and lets a cancellation of the task end what waits on this stream in it.
  ///
  /// One handler for all of its reads, instead of one for each: adding and removing a handler takes longer than everything else that a
  /// read does here.
  func attended<Value>(_ body: () async throws -> Value) async throws -> Value {
    guard core.loop.isCurrent else { return try await body() }
    let other = core.attendedTask
    core.attendedTask = currentTask()
    let result: Result<Value, any Error>
    do {
      result = .success(
        try await withTaskCancellationHandler {
          try await body()
        } onCancel: {
          core.loop.perform { [core] in core.cancelAttended() }
        })
    } catch {
      result = .failure(error)
    }
    let isCancelled = Task.isCancelled  // Then the handler of the other may have run already.
    // Before the task can end: another could get its address.
    try? await loop.run { [core] in core.attendedTask = isCancelled ? nil : other }
    return try result.get()
  }
}

extension StreamCore {
  /// Who calls. Any thread.
  var caller: Caller {
    guard loop.isCurrent else { return .elsewhere }
    if let attendedTask, attendedTask == currentTask() { return .attended }
    return Task.isCancelled ? .elsewhere : .onLoop
  }

  /// The task has been cancelled: what waits ends, and what comes later waits in the ordinary way.
  fileprivate func cancelAttended() {
    attendedTask = nil
    cancelRead(Reader.attended)
  }
}

/// Tells tasks apart that live at the same time.
func currentTask() -> UInt? {
  swift_task_getCurrent().map { UInt(bitPattern: $0) }
}
