internal import Dispatch

/// Where tasks go on when their event loop has closed: one after the other on a private serial queue.
///
/// A task cannot be refused. What it awaits on the loop fails with ``EventLoopClosed``, so it gets to its end here.
final class LateJobs: Sendable {
  private static let key = DispatchSpecificKey<ObjectIdentifier>()

  private let queue = DispatchQueue(label: "swift-uv.late-jobs")

  init() { queue.setSpecific(key: LateJobs.key, value: ObjectIdentifier(self)) }

  /// Whether the caller runs in one of these jobs.
  var isCurrent: Bool { DispatchQueue.getSpecific(key: LateJobs.key) == ObjectIdentifier(self) }

  /// Runs `body` here, on the loop's thread, while no late job runs.
  func hold(_ body: () -> Void) { queue.sync(execute: body) }

  func run(_ job: UnownedJob, for core: LoopCore) {
    queue.async { core.run(job) }
  }
}
