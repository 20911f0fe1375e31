internal import Synchronization
package import UV

/// An operation whose work is a request on an event loop: the base of those that this package brings.
///
/// The crossing: `main()` runs where the operation is started and hands the request to the loop; the request's completion, on the loop
/// thread, finishes the operation. Cancelling, and running out of time, go the same way, so that a request that has just
/// completed is never lost: the operation then finishes with what it brought.
///
/// Handlers given to `whenFinished` run on the loop thread only if the operation was started there.
///
/// A new one says in `main()` which loop its request is for, and overrides `startRequest()` and `stopRequest(_:)`; ``ResolveOperation``
/// shows all of it.
// The proof for `Sendable`: `loop` is written in `main()` and read after it, as `didCancel()` and finishing are.
public class LoopOperation<Output: Sendable>: ResultOperation<Output>, @unchecked Sendable {
  @exclusivity(unchecked) private var loop: EventLoop?

  // `loop`, which this operation holds, for threads that read it while it is set; 0 until then.
  private let loopToWaitFor = Atomic<UInt>(0)

  // Whether the request has ended or was never begun. Written in `main()` and on the loop thread.
  private let isRequestOver = Atomic<Bool>(true)

  package override init() {}

  /// Has `startRequest()` called on the loop thread: at once if this is it. To be called in `main()`.
  package final func begin(on loop: EventLoop) {
    self.loop = loop
    loopToWaitFor.store(
      UInt(bitPattern: Unmanaged.passUnretained(loop).toOpaque()), ordering: .releasing)
    isRequestOver.store(false, ordering: .relaxed)
    startTimeout()
    if loop.isCurrent { return startRequest() }
    let isAccepted = loop.core.perform {
      self.startRequest()
      // A stop on the loop thread has not waited for its turn, and found no request.
      if self.isStopRequested || self.isFinishedByHand { self.stopRequest(self.stopError) }
    }
    if !isAccepted { requestDidEnd(.failure(EventLoopClosed())) }
  }

  /// Finishes the operation with what its request has brought.
  package final func requestDidEnd(_ result: consuming Result<Output, any Error>) {
    isRequestOver.store(true, ordering: .relaxed)
    finish(result)
  }

  private var isFinishedByHand: Bool {
    isFinishClaimed && !isRequestOver.load(ordering: .relaxed) && stopsWhenFinishedByHand
  }

  /// Whether the request is stopped when somebody else has finished the operation.
  package var stopsWhenFinishedByHand: Bool { true }

  package final override func willFinish() {
    super.willFinish()
    guard isFinishedByHand else { return }
    loop?.core.perform { self.stopRequest(CancellationError()) }
  }

  /// Starts the request, whose completion calls ``requestDidEnd(_:)``.
  ///
  /// Loop thread only.
  package func startRequest() {
    // Every subclass of this package overrides it, and nobody else can make one.
    fatalError("\(displayName) does not say what its request is.")
  }

  /// Ends the request with `error`. Its completion, which may have come already, finishes the operation.
  ///
  /// Loop thread only. May be called before `startRequest()`, and again.
  package func stopRequest(_ error: any Error) {}

  public final override func didCancel() {
    // When the loop has closed, its requests have ended and the operation with them.
    loop?.core.perform { self.stopRequest(self.stopError) }
  }

  package final override var finishesWhenStopped: Bool { false }

  package final override var runsHandlersInline: Bool {
    finishesOnStartingThread || loop?.isCurrent != true
  }

  package final override var wouldDeadlock: Bool {
    // Whoever waits may do so before the start, so it must not read `loop`, which the start writes.
    guard let loop = UnsafeRawPointer(bitPattern: loopToWaitFor.load(ordering: .acquiring)) else {
      return false
    }
    return Unmanaged<EventLoop>.fromOpaque(loop).takeUnretainedValue().isCurrent && !isFinished
  }

  package final override var timesItselfFromMain: Bool { false }

  package final override func scheduleTimeout(
    after duration: Duration, _ body: @escaping @Sendable () -> Void
  ) -> @Sendable () -> Void {
    loop!.callLater(after: duration, body)
  }
}

extension EventLoop {
  /// Calls `body` on the loop thread after `duration`; what is returned takes that back. Once the loop is shut down, nothing is called, and
  /// nothing needs to be: its requests have ended.
  package func callLater(
    after duration: Duration, _ body: @escaping @Sendable () -> Void
  ) -> @Sendable () -> Void {
    let timer = TimerCore(loop: core, survivesShutdown: true)
    let deadline = Deadline(after: duration)
    core.perform {
      timer.arm(deadline) {
        timer.discard()
        body()
      }
    }
    return { timer.loop.perform { timer.discard() } }
  }
}
