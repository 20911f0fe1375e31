internal import CUV

/// What a timer calls, for those who would otherwise need a closure for each time.
protocol TimerOwner: AnyObject {
  /// Loop thread only.
  func timerIsDue(_ deadline: Deadline)
}

/// A libuv timer with a deadline on the monotonic clock.
///
/// Loop thread only.
// Unchecked: as HandleCore.
package final class TimerCore: HandleCore, @unchecked Sendable {
  private enum Action {
    case nothing
    case call(() -> Void)
    /// The timer keeps its owner alive while it waits.
    case tell(any TimerOwner, Deadline)
  }

  private var action = Action.nothing
  private var lastCall: UInt64 = 0  // The number of the last call that was followed.
  private let survivesShutdown: Bool

  private var timer: UnsafeMutablePointer<uv_timer_t> {
    memory.assumingMemoryBound(to: uv_timer_t.self)
  }

  /// - Parameter survivesShutdown: Whether it belongs to something that may use the grace period of a shutdown.
  package init(loop: LoopCore, survivesShutdown: Bool = false) {
    self.survivesShutdown = survivesShutdown
    super.init(loop: loop, size: MemoryLayout<uv_timer_t>.size)
  }

  override var mayFinishDuringShutdown: Bool { survivesShutdown }

  /// Calls `fire` once, not before `deadline`. Replaces what was armed.
  ///
  /// - Returns: `false` if the timer is closed or the loop takes nothing new.
  @discardableResult
  package func arm(_ deadline: Deadline, _ fire: @escaping () -> Void) -> Bool {
    arm(deadline, .call(fire))
  }

  /// The same for an owner, who is told of `deadline`.
  @discardableResult
  func arm(_ deadline: Deadline, for owner: some TimerOwner) -> Bool {
    arm(deadline, .tell(owner, deadline))
  }

  private func arm(_ deadline: Deadline, _ action: Action) -> Bool {
    if phase == .unopened {
      guard loop.acceptsNew || survivesShutdown else { return false }
      uv_timer_init(loop.uv, timer)
      opened()
    }
    guard isOpen else { return false }
    replaceAction(by: action)
    // libuv counts from its cached clock, and so do the ticks: how old it is does not matter. It must not be updated here:
    // another timer would fall due in the turn that is under way, and two slow ones would never let it end.
    uv_timer_start(timer, timerDidFire, LoopCore.ticks(until: deadline, on: loop.uv), 0)
    return true
  }

  package func disarm() {
    replaceAction(by: .nothing)
    if isOpen { uv_timer_stop(timer) }
  }

  /// Closes the timer, or makes sure that it never opens.
  package func discard() {
    replaceAction(by: .nothing)
    closeHandle()
  }

  /// Whether to follow the call with that number. Calls are numbered when they are made: on the loop thread one can come before an
  /// earlier one from elsewhere, which is out of date then.
  package func isLatest(_ call: UInt64) -> Bool {
    guard call > lastCall else { return false }
    lastCall = call
    return true
  }

  /// Told when the handle has closed, as it does when the loop shuts down.
  package var whenClosed: (() -> Void)?

  override func didClose() {
    replaceAction(by: .nothing)
    let closed = whenClosed
    whenClosed = nil
    closed?()
  }

  fileprivate func fireNow() {
    let action = action
    self.action = .nothing
    switch action {
    case .nothing: break
    case .call(let fire): fire()
    case .tell(let owner, let deadline): owner.timerIsDue(deadline)
    }
  }

  /// The old one goes when `action` has been changed: with it may go the timer's last owner, who discards the timer.
  private func replaceAction(by new: Action) {
    let old = action
    action = new
    withExtendedLifetime(old) {}
  }
}

private func timerDidFire(_ handle: UnsafeMutablePointer<uv_timer_t>?) {
  withHandleCore(handle!.pointee.data, as: TimerCore.self) { $0.fireNow() }
}
