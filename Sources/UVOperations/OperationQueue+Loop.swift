public import Foundation
public import UV

extension OperationQueue {
  /// A queue whose operations start on the thread of `loop`, without a hop from the loop to them and back.
  ///
  /// The loop must be ``UV/EventLoop/main``, the only one that runs a dispatch queue: its operations start while the main thread is in
  /// `run()`, one at a time, also where there are several such queues, and count as work of `DispatchQueue.main` and `@MainActor`. Whatever
  /// they do in `main()` and in their handlers then keeps the loop waiting.
  public convenience init(on loop: EventLoop) {
    trapUnless(
      loop === EventLoop.main,
      "Only EventLoop.main runs a dispatch queue that operations can be started on; use an ordinary OperationQueue."
    )
    self.init()
    underlyingQueue = MainLoopQueue.shared
  }
}
