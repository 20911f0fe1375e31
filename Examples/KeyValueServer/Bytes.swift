import Glibc

/// Bytes of a request, in the memory that they were received in: whoever keeps some copies them.
typealias Bytes = UnsafeRawBufferPointer

extension Bytes {
  func hasSameBytes(as other: Bytes) -> Bool {
    count == other.count && (count == 0 || memcmp(baseAddress!, other.baseAddress!, count) == 0)
  }

  /// Whether this is `word`, which is in lower case, however it is written.
  func isWord(_ word: StaticString) -> Bool {
    count == word.utf8CodeUnitCount && zip(self, word.bytes).allSatisfy { $0.lowercase == $1 }
  }

  /// As text for people, without what would end or garble their line.
  func text(upTo limit: Int) -> String {
    String(decoding: prefix(limit).map { $0 < 0x20 ? 0x20 : $0 }, as: UTF8.self)
  }
}

extension StaticString {
  var bytes: UnsafeBufferPointer<UInt8> {
    UnsafeBufferPointer(start: utf8Start, count: utf8CodeUnitCount)
  }
}

extension UInt8 {
  static let carriageReturn = UInt8(ascii: "\r")
  static let lineFeed = UInt8(ascii: "\n")

  /// This, or the small letter if it is a capital one of ASCII.
  var lowercase: UInt8 { (0x41...0x5A).contains(self) ? self | 0x20 : self }
}

extension Int {
  /// Reads a decimal number in the one way that the protocol and its values have: no plus sign, no spaces, no zeros in front.
  init?(_ bytes: Bytes) {
    let isNegative = bytes.first == UInt8(ascii: "-")
    let digits = isNegative ? Bytes(rebasing: bytes[1...]) : bytes
    guard let first = digits.first else { return nil }
    guard first != UInt8(ascii: "0") || bytes.count == 1 else { return nil }
    // Below zero, where there is one number more.
    var value = 0
    for byte in digits {
      let digit = Int(byte) - 0x30
      guard (0...9).contains(digit) else { return nil }
      let (tens, isTooLarge) = value.multipliedReportingOverflow(by: 10)
      let (next, isLarge) = tens.subtractingReportingOverflow(digit)
      guard !isTooLarge, !isLarge else { return nil }
      value = next
    }
    if isNegative {
      self = value
    } else {
      guard value > .min else { return nil }
      self = -value
    }
  }
}

/// The time from now to a deadline of any size, zero if it has passed.
func remainingTime(until deadline: Int) -> Int {
  let now = currentTime()
  return deadline > now ? deadline - now : 0
}

/// The time of the system's clock, in milliseconds since 1970: what a file says must hold after a restart.
func currentTime() -> Int {
  var time = timespec()
  clock_gettime(CLOCK_REALTIME, &time)
  return time.tv_sec * 1_000 + time.tv_nsec / 1_000_000
}
