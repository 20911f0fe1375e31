public import Testing
import UV

/// Waits until `condition` holds. Fails the test when its time limit comes first.
public func eventually(
  _ claim: String = "what the test waits for", sourceLocation: SourceLocation = #_sourceLocation,
  _ condition: () throws -> Bool
) async rethrows {
  while try !condition() {
    do {
      try await EventLoop.shared.sleep(for: .milliseconds(1))
    } catch {
      Issue.record(
        "The time was up before this came true: \(claim)", sourceLocation: sourceLocation)
      return
    }
  }
}

/// Waits until `isAlive` is false: the last holder of an object may be another thread that is about to let go.
public func expectGone(
  _ what: String, sourceLocation: SourceLocation = #_sourceLocation, _ isAlive: () -> Bool
) async {
  await eventually("\(what) is gone", sourceLocation: sourceLocation) { !isAlive() }
}
