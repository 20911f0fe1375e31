/// What all clients have in common.
///
/// Loop thread only.
final class ServerState {
  let options: Options
  let store: Store
  let start = ContinuousClock.now
  /// Gets the changes, once it has been loaded.
  var log: AppendOnlyFile?
  var port = 0
  var clientCount = 0
  var commandCount = 0
  private var sessionCount = 0

  init(_ options: Options, _ store: Store) {
    self.options = options
    self.store = store
  }

  func nextSessionNumber() -> Int {
    sessionCount += 1
    return sessionCount
  }
}
