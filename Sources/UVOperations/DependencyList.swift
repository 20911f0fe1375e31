import Foundation
internal import Locking
import Synchronization

/// The dependencies of one operation, each with a gate between, so that removing and dropping them is safe.
///
/// Foundation on Linux never lowers the waiting count when an unfinished dependency is removed, and keeps dependents as
/// unretained pointers, which dangle when the dependent is dropped first. So an operation of ours depends on a
/// ``DependencyGate``, which we can open at any time, and only the gate depends on the dependency.
///
/// Any thread.
final class DependencyList: Sendable {
  private struct State {
    var gates: [DependencyGate] = []
    var hasEnded = false
  }

  /// Held while Foundation is called, so that additions, removals and the end come one after another. Foundation calls
  /// back into `isReady` and the queue's bookkeeping, and neither comes back here.
  private let state = Lock(State())

  var operations: [Operation] { state.withLock { $0.gates.map(\.dependency) } }

  func add(_ dependency: Operation, for owner: AsynchronousOperation) {
    state.withLock { state in
      if state.hasEnded || owner.isFinished { return }
      if state.gates.contains(where: { $0.dependency === dependency }) { return }
      let gate = DependencyGate(dependency, owner)
      state.gates.append(gate)
      owner.addGate(gate)
      gate.addDependency(dependency)  // If that has finished, the gate opens in here.
    }
  }

  func remove(_ dependency: Operation, for owner: AsynchronousOperation) {
    state.withLock { state in
      guard let index = state.gates.firstIndex(where: { $0.dependency === dependency }) else {
        return
      }
      let gate = state.gates.remove(at: index)
      gate.remove()
      gate.detach()
    }
  }

  /// Makes the operation ready whatever it depends on.
  func openAll() {
    for gate in state.withLock({ $0.gates }) { gate.open() }
  }

  /// Lets go of all dependencies for good. Called in the deinit of `owner` too.
  func end(for owner: AsynchronousOperation) {
    var gates = state.withLock { state in
      state.hasEnded = true
      defer { state.gates = [] }
      return state.gates
    }
    for gate in gates {
      owner.removeGate(gate)
      gate.detach()
    }
    ReleaseInTurn.release(&gates)
  }
}

/// Stands between an operation and one of its dependencies, and is finished when the operation need not wait for it.
///
/// Never in a queue: Foundation reads `isReady` when the dependency has finished, and that read opens the gate. The proof
/// for `Sendable`: its own properties are constant or atomic.
final class DependencyGate: Operation, @unchecked Sendable {
  let dependency: Operation
  // Weak, because the dependency may tell the gate on one thread while another drops the owner.
  private weak let owner: AsynchronousOperation?
  private let progress = Atomic<UInt8>(0)

  private static let opening: UInt8 = 1
  private static let opened: UInt8 = 2
  private static let removed: UInt8 = 4

  init(_ dependency: Operation, _ owner: AsynchronousOperation) {
    self.dependency = dependency
    self.owner = owner
  }

  override var isReady: Bool {
    if progress.load(ordering: .acquiring) & DependencyGate.opening != 0 { return true }
    let dependencyHasFinished = super.isReady
    if dependencyHasFinished { open() }
    return dependencyHasFinished
  }

  /// Lets the owner go on: finishes the gate, on this thread, with the owner retained, because Foundation follows its
  /// unretained pointer to the owner here and nowhere else.
  func open() {
    guard let owner, add(DependencyGate.opening) & DependencyGate.opening == 0 else { return }
    owner.whileFoundationIsToldReady { start() }
    if add(DependencyGate.opened) & DependencyGate.removed != 0 { owner.removeGate(self) }
    owner.gateDidOpen()
  }

  /// Opens the gate and takes it out of its owner. If another thread is just opening it, that one takes it out: before the owner was told,
  /// Foundation would go on counting it.
  func remove() {
    if add(DependencyGate.removed) & DependencyGate.opened != 0 {
      owner?.removeGate(self)
    } else {
      open()
    }
  }

  /// Returns what there was before.
  private func add(_ step: UInt8) -> UInt8 {
    progress.bitwiseOr(step, ordering: .acquiringAndReleasing).oldValue
  }

  /// Takes the gate out of its dependency, after which it may be dropped.
  ///
  /// A dependency that has told the gate has forgotten it before, and retains it meanwhile. Any other is asked to
  /// forget it while the caller holds it, so that one that is just finishing can still retain it.
  func detach() {
    if !super.isReady { removeDependency(dependency) }
  }
}
