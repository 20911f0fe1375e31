internal import Dispatch
internal import Locking

/// Where tasks go on when their event loop has closed: one after the other on a private serial queue.
///
/// A task cannot be refused. What it awaits on the loop fails with ``EventLoopClosed``, so it gets to its end here.
final class LateJobs: Sendable {
  private static let key = DispatchSpecificKey<ObjectIdentifier>()

  // Made when it is needed, which most loops never do: letting go of a queue with a specific value starts a thread of
  // dispatch's, which ends the process when there is no descriptor for it.
  private let madeQueue = Lock<DispatchQueue?>(nil)

  private var queue: DispatchQueue {
    madeQueue.withLock { made in
      if let made { return made }
      let queue = DispatchQueue(label: "swift-uv.late-jobs")
      queue.setSpecific(key: LateJobs.key, value: ObjectIdentifier(self))
      made = queue
      return queue
    }
  }

  /// Whether the caller runs in one of these jobs.
  var isCurrent: Bool { DispatchQueue.getSpecific(key: LateJobs.key) == ObjectIdentifier(self) }

  /// Runs `body` here, on the loop's thread, while no late job runs.
  func hold(_ body: () -> Void) { queue.sync(execute: body) }

  func run(_ job: Job, for core: LoopCore) {
    queue.async { core.run(job) }
  }
}
