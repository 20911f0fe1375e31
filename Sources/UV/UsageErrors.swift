/// A call on a stream or listener after it was closed, aborted, or, for a write, after its sending side was shut down.
///
/// A slip of the caller and not of the network, so it is not an ``IOError``. Calls that were waiting when the stream was
/// closed end with it too.
public struct StreamClosed: Error, Hashable, Sendable, CustomStringConvertible {
  /// What was tried: `read`, `write`, `accept`.
  public let operation: String

  public init(_ operation: String) { self.operation = operation }

  public var description: String { "\(operation): the stream is closed" }
}

/// A second read while another one waits on the same stream.
///
/// Bytes belong to one reader: which of two would get the next one is nobody's choice. The first read is not disturbed.
public struct ConcurrentRead: Error, Hashable, Sendable, CustomStringConvertible {
  public init() {}

  public var description: String {
    "read: another read is already waiting on this stream; await it before the next"
  }
}

/// A line, or whatever ends with a delimiter, is longer than the reader allows. Nothing of it was taken.
public struct LineTooLong: Error, Hashable, Sendable, CustomStringConvertible {
  /// What it was read from: a path, the peer's address.
  public let subject: String

  /// How long a line may be, in bytes.
  public let limit: Int

  public init(subject: String, limit: Int) {
    self.subject = subject
    self.limit = limit
  }

  public var description: String { "read \(subject): a line is longer than \(limit) bytes" }
}

/// A stream ended in the middle of what was to be read. What has come is still there, for another read.
public struct IncompleteRead: Error, Hashable, Sendable, CustomStringConvertible {
  /// What it was read from: the peer's address.
  public let subject: String

  /// How many bytes were asked for.
  public let expected: Int

  /// How many have come.
  public let available: Int

  public init(subject: String, expected: Int, available: Int) {
    self.subject = subject
    self.expected = expected
    self.available = available
  }

  public var description: String {
    "read \(subject): the stream ended after \(available) of \(expected) bytes"
  }
}

/// A call on an ``EventLoop`` that has been shut down, or is shutting down and takes nothing new.
///
/// Nothing of the refused call was done. Calls that were waiting when the loop shut down end with it too.
public struct EventLoopClosed: Error, Hashable, Sendable, CustomStringConvertible {
  public init() {}

  public var description: String { "the event loop has been shut down" }
}

/// A call on a ``File`` after it was closed.
///
/// A slip of the caller and not of the system, so it is not an ``IOError``.
public struct FileClosed: Error, Hashable, Sendable, CustomStringConvertible {
  /// What was tried: `read`, `write`, `sync`.
  public let operation: String

  /// The path that the file was opened by.
  public let path: FilePath

  public init(_ operation: String, _ path: FilePath) {
    self.operation = operation
    self.path = path
  }

  public var description: String { "\(operation) \(path): the file is closed" }
}

/// The size of libuv's thread pool was to be set when something had run in it already.
public struct ThreadPoolInUse: Error, Hashable, Sendable, CustomStringConvertible {
  /// The threads that the pool has.
  public let size: Int

  public init(size: Int) { self.size = size }

  public var description: String {
    "the thread pool is in use with \(size) threads; set its size before the first file, name look-up or work"
  }
}

/// Traps with `message` unless `condition` holds: for what a caller has done and cannot handle.
///
/// `precondition` says its message in debug builds only.
@inline(__always)
package func trapUnless(
  _ condition: Bool, _ message: @autoclosure () -> String,
  file: StaticString = #fileID, line: UInt = #line
) {
  if !condition { fatalError(message(), file: file, line: line) }
}
