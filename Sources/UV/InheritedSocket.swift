internal import Glibc
internal import Locking

/// A socket that a service manager has opened for this process and passes on: systemd's socket activation.
///
/// The manager goes on listening while the process is restarted, so that no client is refused meanwhile; and it can pass one
/// socket to many processes.
///
/// ```swift
/// guard let socket = try InheritedSocket.takeAll().first else { ... }
/// let listener = try TCPListener(adopting: socket.descriptor)
/// ```
public struct InheritedSocket: Hashable, Sendable {
  /// The caller's to adopt, with ``TCPListener/init(adopting:options:loop:)``, or to close.
  public let descriptor: CInt

  /// What the manager calls it (`FileDescriptorName=` in a unit of systemd's); `nil` if it gives no names.
  public let name: String?

  /// The sockets that were passed to this process, in the manager's order; none if it was started in another way.
  ///
  /// Any thread. They are the caller's: every later call returns none, because a descriptor must not have two owners. From here on
  /// programs that the process starts do not inherit them.
  ///
  /// What is passed is in `LISTEN_PID`, `LISTEN_FDS` and `LISTEN_FDNAMES`:
  /// [sd_listen_fds](https://www.freedesktop.org/software/systemd/man/latest/sd_listen_fds.html). The variables stay as they are;
  /// a program that inherits them sees that they are for another process.
  ///
  /// - Throws: ``IOError`` `invalidArgument` if the variables make no sense, `badDescriptor` if a socket that they promise is not there.
  ///   Then none is taken.
  public static func takeAll() throws(IOError) -> [InheritedSocket] {
    try areTaken.withLock { areTaken throws(IOError) in
      guard !areTaken else { return [] }
      let sockets = try passed(by: { getenv($0).map { String(cString: $0) } }, from: 3)
      areTaken = true
      return sockets
    }
  }

  private static let areTaken = Lock(false)

  /// - Parameter first: The number of the first descriptor; the others follow it.
  package static func passed(
    by environment: (String) -> String?, from first: CInt
  ) throws(IOError) -> [InheritedSocket] {
    guard let process = environment("LISTEN_PID"), let count = environment("LISTEN_FDS") else {
      return []
    }
    guard try number(process, "LISTEN_PID") == getpid() else { return [] }
    let end = first.addingReportingOverflow(try number(count, "LISTEN_FDS"))
    guard !end.overflow else { throw refusal("LISTEN_FDS", count) }
    let names = environment("LISTEN_FDNAMES")?
      .split(separator: ":", omittingEmptySubsequences: false).map(String.init)
    guard names == nil || names!.count == Int(end.partialValue - first) else {
      throw refusal("LISTEN_FDNAMES", names!.joined(separator: ":"))
    }
    let descriptors = first..<end.partialValue
    for descriptor in descriptors where fcntl(descriptor, F_SETFD, FD_CLOEXEC) != 0 {
      throw IOError(errno: errno, "take over", "descriptor \(descriptor)")
    }
    return descriptors.enumerated().map { InheritedSocket(descriptor: $1, name: names?[$0]) }
  }

  private static func number(_ text: String, _ variable: String) throws(IOError) -> CInt {
    guard let number = CInt(text), number >= 0 else { throw refusal(variable, text) }
    return number
  }

  private static func refusal(_ variable: String, _ text: String) -> IOError {
    IOError(.invalidArgument, "take over", "\(variable)=\(text)")
  }
}
