/// Bytes in the Redis protocol, version 2: replies to a client, or commands for a file.
struct RESPBuffer {
  private(set) var bytes: [UInt8] = []

  var isEmpty: Bool { bytes.isEmpty }
  var count: Int { bytes.count }

  /// Empties it; the memory is kept, unless there is very much of it.
  mutating func removeAll() { bytes.removeAll(keepingCapacity: bytes.capacity <= 1 << 20) }

  mutating func simple(_ text: StaticString) {
    bytes.append(UInt8(ascii: "+"))
    append(text)
    endLine()
  }

  mutating func error(_ message: String) {
    bytes.append(UInt8(ascii: "-"))
    bytes.append(contentsOf: message.utf8)
    endLine()
  }

  mutating func integer(_ number: Int) { line(UInt8(ascii: ":"), number) }

  mutating func null() { append("$-1\r\n") }

  /// An array, the `count` elements of which follow.
  mutating func array(of count: Int) { line(UInt8(ascii: "*"), count) }

  mutating func bulk(_ value: Bytes) {
    line(UInt8(ascii: "$"), value.count)
    bytes.append(contentsOf: value)
    endLine()
  }

  mutating func bulk(_ value: [UInt8]) { value.withUnsafeBytes { bulk($0) } }

  mutating func bulk(_ text: String) { bulk(Array(text.utf8)) }

  mutating func bulkOrNull(_ value: [UInt8]?) {
    if let value { bulk(value) } else { null() }
  }

  /// An array of bulk strings: a command.
  mutating func command(_ arguments: Arguments) {
    array(of: arguments.count)
    for index in 0..<arguments.count { bulk(arguments[index]) }
  }

  mutating func command(_ name: String, _ arguments: [UInt8]...) {
    array(of: 1 + arguments.count)
    bulk(name)
    for argument in arguments { bulk(argument) }
  }

  // MARK: Parts

  private mutating func line(_ type: UInt8, _ number: Int) {
    bytes.append(type)
    appendDecimal(number)
    endLine()
  }

  private mutating func endLine() { append("\r\n") }

  private mutating func append(_ text: StaticString) { bytes.append(contentsOf: text.bytes) }

  private mutating func appendDecimal(_ number: Int) {
    if (0..<10).contains(number) { return bytes.append(0x30 + UInt8(number)) }
    withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 20) { digits in
      var start = digits.count
      var rest = number.magnitude
      repeat {
        start -= 1
        digits[start] = 0x30 + UInt8(rest % 10)
        rest /= 10
      } while rest > 0
      if number < 0 {
        start -= 1
        digits[start] = UInt8(ascii: "-")
      }
      bytes.append(contentsOf: digits[start...])
    }
  }
}
