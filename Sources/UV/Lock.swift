internal import Synchronization

/// A `Mutex` that the thread sanitizer understands.
///
/// On Linux the sanitizer does not see into `Mutex` and reports races that the lock rules out. It sees the atomic that
/// each holder reads first and writes last; that costs two plain moves. Can go when `Mutex` tells the sanitizer itself.
package struct Lock<Value: ~Copyable>: ~Copyable {
  private let mutex: Mutex<Value>
  private let token = Atomic<UInt8>(0)

  package init(_ value: consuming sending Value) { mutex = Mutex(value) }

  @inline(__always)
  package borrowing func withLock<Result: ~Copyable, Failure: Error>(
    _ body: (inout sending Value) throws(Failure) -> sending Result
  ) throws(Failure) -> sending Result {
    try mutex.withLock { value throws(Failure) in
      _ = token.load(ordering: .acquiring)
      defer { token.store(0, ordering: .releasing) }
      return try body(&value)
    }
  }
}

// As `Mutex` is: it hands its value to one thread at a time.
extension Lock: @unchecked Sendable where Value: ~Copyable {}
