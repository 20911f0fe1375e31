internal import Locking
public import Testing
internal import UV

/// What callbacks on any thread have brought, in the order of its coming.
public final class Collected<Element: Sendable>: Sendable {
  private let elements = Lock<[Element]>([])

  public init() {}

  public func append(_ element: Element) { elements.withLock { $0.append(element) } }

  public var values: [Element] { elements.withLock { $0 } }

  public var count: Int { elements.withLock { $0.count } }

  /// Waits until at least `count` have come, and returns all. Fails the test when its time limit comes first.
  @discardableResult
  public func waitUntil(
    count expected: Int, sourceLocation: SourceLocation = #_sourceLocation
  ) async -> [Element] {
    await eventually("\(expected) elements have come", sourceLocation: sourceLocation) {
      count >= expected
    }
    return values
  }
}

/// Something that happens once, for any number of tasks to wait for.
public final class Event: Sendable {
  private let happened = Collected<Void>()

  public init() {}

  public func set() { happened.append(()) }

  public var isSet: Bool { happened.count > 0 }

  /// Waits until somebody has called ``set()``. Fails the test when its time limit comes first.
  public func wait(sourceLocation: SourceLocation = #_sourceLocation) async {
    await happened.waitUntil(count: 1, sourceLocation: sourceLocation)
  }
}
