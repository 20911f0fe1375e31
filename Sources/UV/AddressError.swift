/// An address, host name or port that cannot be one. Nothing was tried with it.
public struct AddressError: Error, Hashable, Sendable {
  /// What is wrong with it. Open on purpose.
  public struct Reason: Hashable, Sendable {
    let text: String

    /// The port is not within 0...65535.
    public static let port = Reason(text: "the port is not within 0...65535")
    /// There is no port.
    public static let noPort = Reason(text: "there is no port after the address")
    /// It is not a numeric IPv4 or IPv6 address.
    public static let notNumeric = Reason(text: "not a numeric IPv4 or IPv6 address")
    /// The interface after `%` does not exist.
    public static let scope = Reason(text: "there is no such network interface")
    /// It is empty, longer than 253 bytes, has a label of more than 63 bytes, or a NUL byte.
    public static let hostName = Reason(text: "not a host name")
  }

  public let reason: Reason
  public let input: String

  init(_ reason: Reason, _ input: String) {
    self.reason = reason
    self.input = input
  }
}

extension AddressError: CustomStringConvertible {
  public var description: String { "address \"\(input)\": \(reason.text)" }
}
