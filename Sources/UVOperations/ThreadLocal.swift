import Foundation
internal import UV

/// A pointer that each thread has for itself, `nil` at first.
struct ThreadLocal: Sendable {
  private let key: pthread_key_t

  init() {
    var key = pthread_key_t()
    let status = pthread_key_create(&key, nil)
    // A process has at least 128 keys, and these are made once.
    trapUnless(status == 0, "The process has no thread-local storage left.")
    self.key = key
  }

  var value: UnsafeMutableRawPointer? { pthread_getspecific(key) }

  /// Runs `body` on this thread with `value` in place of what is there.
  func with<Result>(_ value: UnsafeMutableRawPointer, _ body: () -> Result) -> Result {
    let outer = self.value
    pthread_setspecific(key, value)
    defer { pthread_setspecific(key, outer) }
    return body()
  }
}
