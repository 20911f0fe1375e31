import Glibc
public import Testing
import UV

/// Plain sockets, for what the package itself would never do.
public enum RawSocket {
  /// A TCP socket that is bound to a free port of 127.0.0.1 and does not listen: whoever connects is refused, and nobody else
  /// gets the port meanwhile.
  @discardableResult
  public static func withBoundPort<Value>(
    _ body: (_ descriptor: CInt, _ port: Int) async throws -> Value
  ) async throws -> Value {
    let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    defer { close(descriptor) }
    var address = loopback(port: 0)
    let size = socklen_t(MemoryLayout<sockaddr_in>.size)
    var length = size
    let status = withUnsafeMutablePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, size) == 0 ? getsockname(descriptor, $0, &length) : -1
      }
    }
    precondition(status == 0, "no free port")
    return try await body(descriptor, Int(UInt16(bigEndian: address.sin_port)))
  }

  /// A socket that has connected, to be closed by the caller; the listener need not accept it.
  ///
  /// - Parameter prepare: Called with the socket before it connects.
  public static func connected(toPort port: Int, _ prepare: (CInt) -> Void = { _ in }) -> CInt {
    let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    prepare(descriptor)
    var address = loopback(port: port)
    let status = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    precondition(status == 0, "cannot connect")
    return descriptor
  }

  /// Closes `descriptor` so that the other side gets a reset.
  public static func reset(_ descriptor: CInt) {
    var option = linger(l_onoff: 1, l_linger: 0)
    setsockopt(
      descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
    close(descriptor)
  }

  /// An integer option of a socket.
  public static func option(_ descriptor: CInt, _ level: CInt, _ name: CInt) -> Int {
    var value: CInt = -1
    var length = socklen_t(MemoryLayout<CInt>.size)
    getsockopt(descriptor, level, name, &value, &length)
    return Int(value)
  }

  private static func loopback(port: Int) -> sockaddr_in {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = UInt16(port).bigEndian
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    return address
  }
}

/// What this process has open. For tests that have the process for themselves.
public func openDescriptors() -> Int { descriptorNumbers().count }

/// Waits until no more than `count` descriptors are open: other threads have one for a moment, such as the allocator when it counts the
/// processors.
public func expectDescriptors(
  _ count: Int, sourceLocation: SourceLocation = #_sourceLocation
) async {
  await eventually("\(count) descriptors are open", sourceLocation: sourceLocation) {
    openDescriptors() <= count
  }
}

/// The numbers of the descriptors that this process has open.
public func descriptorNumbers() -> [CInt] {
  _ = EventLoop.shared  // Made on first use, which a wait may be or not.
  guard let directory = opendir("/proc/self/fd") else { return [] }
  defer { closedir(directory) }
  var numbers: [CInt] = []
  while let entry = readdir(directory) {
    let name = withUnsafeBytes(of: &entry.pointee.d_name) {
      String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
    }
    // Two dots are none, and the directory itself will be closed.
    if let number = CInt(name), number != dirfd(directory) { numbers.append(number) }
  }
  return numbers
}

/// The most memory that this process has had, in bytes. For tests that have the process for themselves.
public func peakMemory() -> Int {
  var usage = rusage()
  getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
  return usage.ru_maxrss * 1_024
}
