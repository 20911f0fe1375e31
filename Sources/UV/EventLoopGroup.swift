internal import CUV
internal import Synchronization

/// Several event loops, one thread each, that share work.
///
/// Any thread. A group that is dropped lets go of its loops.
public final class EventLoopGroup: Sendable {
  /// How many loops a group has.
  public struct Count: Hashable, Sendable, ExpressibleByIntegerLiteral {
    let number: Int

    /// As many as processors that this process may use: `uv_available_parallelism`.
    public static var automatic: Count { Count(Int(uv_available_parallelism())) }

    public init(_ number: Int) { self.number = number }
    public init(integerLiteral number: Int) { self.init(number) }
  }

  /// The loops, at least one.
  public let loops: [EventLoop]

  private let turns = Atomic<Int>(0)

  /// Starts the loops.
  ///
  /// - Throws: ``IOError`` if the system has no descriptor or thread left.
  public init(loops count: Count = .automatic) throws(IOError) {
    trapUnless(count.number > 0, "A group must have a loop; \(count.number) were asked for.")
    var loops: [EventLoop] = []
    for _ in 0..<count.number { loops.append(try EventLoop()) }
    self.loops = loops
  }

  /// The loops in turn, without those that have been shut down unless all have.
  public func next() -> EventLoop {
    let turn = turns.wrappingAdd(1, ordering: .relaxed).oldValue
    let first = Int(UInt(bitPattern: turn) % UInt(loops.count))
    if loops[first].isOpen { return loops[first] }
    return (loops[first...] + loops[..<first]).first(where: \.isOpen) ?? loops[first]
  }

  /// Whether there is a loop that has not been shut down.
  var isOpen: Bool { loops.contains(where: \.isOpen) }

  /// Shuts all loops down at the same time, as ``EventLoop/shutdown(gracePeriod:)`` does.
  public func shutdown(gracePeriod: Duration = .zero) async {
    await withDiscardingTaskGroup { shutdowns in
      for loop in loops { shutdowns.addTask { await loop.shutdown(gracePeriod: gracePeriod) } }
    }
  }
}

extension EventLoop {
  fileprivate var isOpen: Bool { !core.isShuttingDown.load(ordering: .relaxed) }
}
