public import Synchronization

/// A `Mutex` that the thread sanitizer understands.
///
/// On Linux the sanitizer does not see into `Mutex` and reports races that the lock rules out. It sees the atomic that
/// each holder reads first and writes last; that costs two plain moves. Can go when `Mutex` tells the sanitizer itself.
///
/// In a module of its own, which is no product: only what is public can be inlined elsewhere, and not inlined each use looks
/// its type up at run time, at half the speed of the echo server.
public struct Lock<Value: ~Copyable>: ~Copyable {
  @usableFromInline let mutex: Mutex<Value>
  @usableFromInline let token = Atomic<UInt8>(0)

  @inlinable public init(_ value: consuming sending Value) { mutex = Mutex(value) }

  @inlinable @inline(__always)
  public borrowing func withLock<Result: ~Copyable, Failure: Error>(
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
