import Synchronization

/// A number that any thread may change.
public final class Tally: Sendable {
  private let number = Atomic<Int>(0)

  public init() {}

  public var value: Int { number.load(ordering: .sequentiallyConsistent) }

  /// - Returns: The number after the change.
  @discardableResult
  public func add(_ amount: Int = 1) -> Int {
    number.add(amount, ordering: .sequentiallyConsistent).newValue
  }
}
