import Foundation
import Synchronization

/// The dependencies of one operation, kept beside Foundation's own so that removing and dropping them is safe.
///
/// Foundation on Linux never lowers the waiting count when an unfinished dependency is removed, and keeps dependents as
/// unretained pointers, which dangle when the dependent is dropped first. So an operation of ours never becomes a
/// dependent itself: a ``DependencyGate`` does in its place. Gates are thrown away instead of repaired, and stay
/// alive until no dependency points at them.
///
/// Any thread.
final class DependencyList: Sendable {
  /// Makes additions, removals and the end of the list happen one after another. Foundation is called with this held,
  /// and calls back into `isReady` and the queue's bookkeeping: neither comes back here.
  private let edits = Mutex(false)  // Whether the list has ended.
  private let current = Mutex<DependencyGate?>(nil)

  private var gate: DependencyGate? { current.withLock { $0 } }

  var operations: [Operation] { gate?.dependencies ?? [] }

  /// Whether every dependency has finished.
  var isOpen: Bool { gate?.isOpen ?? true }

  func add(_ dependency: Operation, for owner: AsynchronousOperation) {
    edits.withLock { hasEnded in
      if hasEnded || owner.isFinished { return }
      let gate = gate ?? makeGate(for: owner)
      gate.addDependency(dependency)
    }
  }

  /// Removes `dependency` by putting a new gate that waits for the others in the place of the present one.
  func remove(_ dependency: Operation, for owner: AsynchronousOperation) {
    edits.withLock { hasEnded in
      guard !hasEnded, let old = gate, old.dependencies.contains(where: { $0 === dependency })
      else { return }
      let new = DependencyGate(owner)
      for other in old.dependencies where other !== dependency { new.addDependency(other) }
      current.withLock { $0 = new }
      old.detach()
    }
  }

  /// Lets go of all dependencies for good.
  func end() {
    edits.withLock { hasEnded in
      hasEnded = true
      let gate = current.withLock { $0.take() }
      gate?.detach()
    }
  }

  private func makeGate(for owner: AsynchronousOperation) -> DependencyGate {
    let gate = DependencyGate(owner)
    current.withLock { $0 = gate }
    return gate
  }
}

/// Waits for dependencies in the place of an operation, and tells it when the last has finished.
///
/// Never started and never in a queue: Foundation reads `isReady` when the last dependency finishes, and that read is
/// the news. The proof for `Sendable`: the only property of its own is constant.
private final class DependencyGate: Operation, @unchecked Sendable {
  // Weak, because the gate may be told by one thread while another drops the owner.
  private weak let owner: AsynchronousOperation?

  init(_ owner: AsynchronousOperation) { self.owner = owner }

  /// Whether every dependency has finished, without telling the owner.
  var isOpen: Bool { super.isReady }

  override var isReady: Bool {
    let isOpen = super.isReady
    if isOpen { owner?.readinessDidChange() }
    return isOpen
  }

  /// Takes this gate out of its dependencies, after which it may be dropped.
  ///
  /// When all have finished they have forgotten the gate already, and retain it while they tell it. The others are
  /// asked to forget it while the caller holds it, so that one that is just finishing can still retain it.
  func detach() {
    if isOpen { return }
    for dependency in dependencies { removeDependency(dependency) }
  }
}
