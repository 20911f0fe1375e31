internal import CUV

/// An IPv4 or IPv6 address with a port, and for IPv6 the scope.
///
/// Prints as `127.0.0.1:7007`, `[::1]:7007` or `[fe80::1%eth0]:7007`, and reads what it prints.
public struct SocketAddress: Hashable, Sendable {
  public enum Family: Hashable, Sendable { case ipv4, ipv6 }

  public let family: Family

  /// The port, from 0 to 65535.
  public let port: Int

  /// The number of the interface that an IPv6 address belongs to, 0 for none.
  public let scopeID: UInt32

  // The address in network order; IPv4 uses the first four bytes.
  private let high: UInt64
  private let low: UInt64

  /// Reads a numeric address, such as `127.0.0.1`, `::1` or `fe80::1%eth0`. Nothing is looked up but the interface's name.
  ///
  /// - Throws: ``AddressError`` if `host` is not a numeric address, its interface does not exist, or `port` is not within
  ///   0...65535.
  public init(_ host: String, port: Int) throws(AddressError) {
    guard (0...65_535).contains(port) else { throw AddressError(.port, "\(host):\(port)") }
    guard !host.utf8.contains(0) else { throw AddressError(.notNumeric, host) }
    var four = in_addr()
    if inet_pton(AF_INET, host, &four) == 1 {
      self.init(four, port: port)
      return
    }
    let parts = host.split(separator: "%", maxSplits: 1, omittingEmptySubsequences: false)
    var six = in6_addr()
    guard inet_pton(AF_INET6, String(parts[0]), &six) == 1 else {
      throw AddressError(.notNumeric, host)
    }
    let scope = parts.count == 2 ? SocketAddress.scopeID(String(parts[1])) : 0
    guard let scope else { throw AddressError(.scope, host) }
    self.init(six, port: port, scopeID: scope)
  }

  /// Reads an address with its port, such as `127.0.0.1:7007` or `[::1]:7007`.
  ///
  /// - Throws: ``AddressError`` as ``init(_:port:)``, or if there is no port.
  public init(_ text: String) throws(AddressError) {
    guard let colon = text.lastIndex(of: ":"),
      let port = Int(digits: text[text.index(after: colon)...])
    else {
      throw AddressError(.noPort, text)
    }
    let host = text[..<colon]
    if host.hasPrefix("["), host.hasSuffix("]") {
      let inner = String(host.dropFirst().dropLast())
      try self.init(inner, port: port)
      guard family == .ipv6 else { throw AddressError(.notNumeric, text) }
    } else {
      guard !host.contains(":") else { throw AddressError(.noPort, text) }
      try self.init(String(host), port: port)
    }
  }

  /// This machine, over IPv4: `127.0.0.1`.
  ///
  /// Traps if `port` is not within 0...65535.
  public static func loopback(port: Int) -> SocketAddress { .trusted("127.0.0.1", port) }

  /// Every IPv4 address of this machine: `0.0.0.0`.
  ///
  /// Traps if `port` is not within 0...65535.
  public static func anyIPv4(port: Int) -> SocketAddress { .trusted("0.0.0.0", port) }

  /// Every address of this machine, `::`; a listener there takes IPv4 clients as well unless told not to.
  ///
  /// Traps if `port` is not within 0...65535.
  public static func any(port: Int) -> SocketAddress { .trusted("::", port) }

  private static func trusted(_ host: String, _ port: Int) -> SocketAddress {
    do {
      return try SocketAddress(host, port: port)
    } catch {
      // The hosts are ours, so it is the port, which the documentation says traps.
      fatalError("\(error)")
    }
  }

  /// The address without the port: `127.0.0.1`, `fe80::1%eth0`.
  public var host: String {
    let text = withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(INET6_ADDRSTRLEN)) {
      text in
      withUnsafeBytes(of: (high, low)) { bytes in
        _ = inet_ntop(
          family == .ipv4 ? AF_INET : AF_INET6, bytes.baseAddress, text.baseAddress,
          socklen_t(text.count))
      }
      return String(cString: text.baseAddress!)
    }
    return scopeID == 0 ? text : "\(text)%\(SocketAddress.scopeName(scopeID))"
  }

  private static func scopeID(_ name: String) -> UInt32? {
    if let number = UInt32(digits: name), number > 0 { return number }
    let index = if_nametoindex(name)
    return index > 0 ? index : nil
  }

  private static func scopeName(_ id: UInt32) -> String {
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(IF_NAMESIZE)) { name in
      if_indextoname(id, name.baseAddress) == nil
        ? String(id) : String(cString: name.baseAddress!)
    }
  }
}

extension FixedWidthInteger {
  /// Reads a number without a sign, which the standard library's own initialiser allows.
  fileprivate init?(digits text: some StringProtocol) {
    guard text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else {
      return nil
    }
    self.init(text)
  }
}

extension SocketAddress: CustomStringConvertible {
  public var description: String {
    family == .ipv4 ? "\(host):\(port)" : "[\(host)]:\(port)"
  }
}

// MARK: The system's form

extension SocketAddress {
  private init(_ address: in_addr, port: Int) {
    family = .ipv4
    self.port = port
    scopeID = 0
    // The four bytes stay first in memory on either byte order.
    high = withUnsafeTemporaryAllocation(of: UInt64.self, capacity: 1) { word in
      word[0] = 0
      UnsafeMutableRawBufferPointer(word).storeBytes(of: address.s_addr, as: UInt32.self)
      return word[0]
    }
    low = 0
  }

  private init(_ address: in6_addr, port: Int, scopeID: UInt32) {
    family = .ipv6
    self.port = port
    self.scopeID = scopeID
    (high, low) = withUnsafeBytes(of: address) {
      ($0.loadUnaligned(as: UInt64.self), $0.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
    }
  }

  func with(port: Int) -> SocketAddress { SocketAddress(self, port: port) }

  private init(_ other: SocketAddress, port: Int) {
    family = other.family
    self.port = port
    scopeID = other.scopeID
    high = other.high
    low = other.low
  }

  /// The address at `pointer`, or `nil` if it is of another family.
  init?(_ pointer: UnsafePointer<sockaddr>) {
    let raw = UnsafeRawPointer(pointer)
    switch CInt(pointer.pointee.sa_family) {
    case AF_INET:
      let four = raw.loadUnaligned(as: sockaddr_in.self)
      self.init(four.sin_addr, port: Int(UInt16(bigEndian: four.sin_port)))
    case AF_INET6:
      let six = raw.loadUnaligned(as: sockaddr_in6.self)
      self.init(
        six.sin6_addr, port: Int(UInt16(bigEndian: six.sin6_port)), scopeID: six.sin6_scope_id)
    default:
      return nil
    }
  }

  /// Asks the system, which fills in the storage, for an address.
  init?(filledBy fill: (UnsafeMutablePointer<sockaddr>, inout CInt) -> CInt) {
    var storage = sockaddr_storage()
    let address = withUnsafeMutableBytes(of: &storage) { bytes -> SocketAddress? in
      var length = CInt(bytes.count)
      let pointer = bytes.baseAddress!.assumingMemoryBound(to: sockaddr.self)
      return fill(pointer, &length) == 0 ? SocketAddress(pointer) : nil
    }
    guard let address else { return nil }
    self = address
  }

  func withSockaddr<Value>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Value) -> Value {
    var storage = sockaddr_storage()
    return withUnsafeMutableBytes(of: &storage) { bytes in
      let length = fill(bytes)
      return body(bytes.baseAddress!.assumingMemoryBound(to: sockaddr.self), socklen_t(length))
    }
  }

  private func fill(_ bytes: UnsafeMutableRawBufferPointer) -> Int {
    withUnsafeBytes(of: (high, low)) { address in
      switch family {
      case .ipv4:
        var four = sockaddr_in()
        four.sin_family = sa_family_t(AF_INET)
        four.sin_port = UInt16(port).bigEndian
        four.sin_addr = address.loadUnaligned(as: in_addr.self)
        bytes.storeBytes(of: four, as: sockaddr_in.self)
        return MemoryLayout<sockaddr_in>.size
      case .ipv6:
        var six = sockaddr_in6()
        six.sin6_family = sa_family_t(AF_INET6)
        six.sin6_port = UInt16(port).bigEndian
        six.sin6_addr = address.loadUnaligned(as: in6_addr.self)
        six.sin6_scope_id = scopeID
        bytes.storeBytes(of: six, as: sockaddr_in6.self)
        return MemoryLayout<sockaddr_in6>.size
      }
    }
  }
}
