import TestSupport
import Testing
import UV

@Suite(.timeLimit(.minutes(1))) struct SocketAddressTests {
  @Test(arguments: [
    "127.0.0.1:7007", "0.0.0.0:0", "255.255.255.255:65535", "[::1]:7007", "[::]:0",
    "[2001:db8::8:800:200c:417a]:443", "[::ffff:192.0.2.1]:80", "[fe80::1%lo]:9",
  ])
  func anAddressReadsWhatItPrints(_ text: String) throws {
    let address = try SocketAddress(text)
    #expect("\(address)" == text)
    #expect(try SocketAddress(address.host, port: address.port) == address)
  }

  @Test(arguments: [
    ("[0:0:0:0:0:0:0:1]:1", "[::1]:1"),
    ("[2001:DB8::1]:1", "[2001:db8::1]:1"),
    ("[::FFFF:1.2.3.4]:1", "[::ffff:1.2.3.4]:1"),
    ("1.2.3.4:0080", "1.2.3.4:80"),
  ])
  func oneAddressHasOnePrintedForm(_ text: String, _ printed: String) throws {
    #expect("\(try SocketAddress(text))" == printed)
    #expect(try SocketAddress(text).hashValue == SocketAddress(printed).hashValue)
  }

  @Test(arguments: [
    "", ".", "localhost", "127.0.0", "127.0.0.1.1", "256.0.0.1", "127.0.0.01", " 127.0.0.1",
    "127.0.0.1 ", "127.1", "0x7f000001", "127.0.0.1%lo", "1::2::3", "[::1]", "::1 ", ":::", "%lo",
    "12345::1", "127.0.0.1\0", "::1\0", "\0", "fe80::1\0%lo", "１２７.0.0.1", "::ffff:1.2.3.256",
    String(repeating: "1", count: 300),
  ])
  func whatIsNotNumericIsRefused(_ host: String) {
    #expect { try SocketAddress(host, port: 1) } throws: { error in
      (error as? AddressError)?.reason == .notNumeric && (error as? AddressError)?.input == host
    }
  }

  @Test(arguments: [-1, 65_536, Int.max, Int.min])
  func aPortOutOfRangeIsRefused(_ port: Int) {
    for host in ["127.0.0.1", "::1", "not an address"] {
      #expect { try SocketAddress(host, port: port) } throws: {
        ($0 as? AddressError)?.reason == .port
      }
    }
  }

  @Test(arguments: [
    ("127.0.0.1:65536", AddressError.Reason.port),
    ("127.0.0.1:-1", .noPort),
    ("127.0.0.1:+80", .noPort),
    ("[::1]:-0", .noPort),
    ("127.0.0.1:", .noPort),
    ("127.0.0.1", .noPort),
    ("127.0.0.1: 80", .noPort),
    ("127.0.0.1:80 ", .noPort),
    ("127.0.0.1:８０", .noPort),
    ("127.0.0.1:99999999999999999999", .noPort),
    ("::1:80", .noPort),
    ("", .noPort),
    ("[::1]", .noPort),
    ("[127.0.0.1]:80", .notNumeric),
    ("[]:80", .notNumeric),
    ("[[::1]]:80", .notNumeric),
    ("localhost:80", .notNumeric),
    ("127.0.0.1\0:80", .notNumeric),
    ("[fe80::1%nope]:80", .scope),
  ])
  func badTextIsRefused(_ text: String, _ reason: AddressError.Reason) {
    #expect { try SocketAddress(text) } throws: { ($0 as? AddressError)?.reason == reason }
  }

  @Test func aScopeIsTheNumberOfItsInterface() throws {
    let address = try SocketAddress("fe80::1%lo", port: 7)
    #expect(address.scopeID > 0)
    #expect(address.host == "fe80::1%lo")
    #expect(try SocketAddress("fe80::1%\(address.scopeID)", port: 7) == address)
    #expect(try SocketAddress("fe80::1", port: 7) != address)
  }

  @Test func aScopeWithoutAnInterfaceKeepsItsNumber() throws {
    let address = try SocketAddress("fe80::1%4000000000", port: 7)
    #expect("\(address)" == "[fe80::1%4000000000]:7")
  }

  @Test(arguments: [
    "nope", "", "0", "-1", "+1", "4294967296", "lo ", "lo%lo", "a-name-longer-than-any-interface",
  ])
  func anInterfaceThatDoesNotExistIsRefused(_ interface: String) {
    #expect { try SocketAddress("fe80::1%\(interface)", port: 7) } throws: {
      ($0 as? AddressError)?.reason == .scope
    }
  }

  @Test func partsTellAddressesApart() throws {
    let addresses = try [
      "1.2.3.4:1", "1.2.3.4:2", "1.2.3.5:1", "[::1.2.3.4]:1", "[::ffff:1.2.3.4]:1",
    ]
    .map { try SocketAddress($0) }
    #expect(Set(addresses).count == addresses.count)
    #expect(Set(addresses + addresses).count == addresses.count)
    #expect(addresses.map(\.family) == [.ipv4, .ipv4, .ipv4, .ipv6, .ipv6])
  }

  @Test func wellKnownAddressesAreWhatTheySay() {
    #expect("\(SocketAddress.loopback(port: 1))" == "127.0.0.1:1")
    #expect("\(SocketAddress.anyIPv4(port: 2))" == "0.0.0.0:2")
    #expect("\(SocketAddress.any(port: 65_535))" == "[::]:65535")
  }

  @Test func aWellKnownAddressWithAnImpossiblePortTraps() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      _ = SocketAddress.loopback(port: 65_536)
    }
    expectMessage("the port is not within 0...65535", in: result)
  }

  @Test func anAddressErrorPrintsWhatIsWrongWithWhat() throws {
    let error = #expect(throws: AddressError.self) { try SocketAddress("nobody", port: 1) }
    #expect("\(try #require(error))" == "address \"nobody\": not a numeric IPv4 or IPv6 address")
  }
}
