/// The words of a line, apart by blanks. `"..."` with escapes such as `\n` and `\x00`, and `'...'` with `\'`, may have any bytes in them.
///
/// A word without its quotes is never longer than with them, so it is put where it was.
struct LineWords {
  private let line: UnsafeMutableRawBufferPointer
  private var position = 0

  init(_ line: UnsafeMutableRawBufferPointer) { self.line = line }

  /// Where the next word is.
  mutating func next() throws(ProtocolError) -> Range<Int>? {
    while position < line.count, isBlank(line[position]) { position += 1 }
    guard position < line.count else { return nil }
    let start = position
    var end = start
    var quote: UInt8?
    while position < line.count {
      let byte = line[position]
      if byte == quote {
        position += 1
        guard position == line.count || isBlank(line[position]) else { throw .unbalancedQuotes }
        return start..<end
      } else if quote == nil, isBlank(byte) {
        return start..<end
      } else if quote == nil, byte == doubleQuote || byte == singleQuote {
        quote = byte
        position += 1
      } else {
        line[end] = takeByte(in: quote)
        end += 1
      }
    }
    guard quote == nil else { throw .unbalancedQuotes }
    return start..<end
  }

  /// The next byte, or what an escape stands for.
  private mutating func takeByte(in quote: UInt8?) -> UInt8 {
    let byte = line[position]
    position += 1
    guard byte == UInt8(ascii: "\\"), let quote, position < line.count else { return byte }
    let escaped = line[position]
    if quote == singleQuote {
      guard escaped == singleQuote else { return byte }
      position += 1
      return escaped
    }
    position += 1
    return escaped == UInt8(ascii: "x") ? takeHexadecimal() ?? escaped : value(ofEscape: escaped)
  }

  private mutating func takeHexadecimal() -> UInt8? {
    guard position + 2 <= line.count,
      let high = Character(UnicodeScalar(line[position])).hexDigitValue,
      let low = Character(UnicodeScalar(line[position + 1])).hexDigitValue
    else { return nil }
    position += 2
    return UInt8(high << 4 | low)
  }

  private func value(ofEscape byte: UInt8) -> UInt8 {
    switch byte {
    case UInt8(ascii: "n"): .lineFeed
    case UInt8(ascii: "r"): .carriageReturn
    case UInt8(ascii: "t"): 0x09
    case UInt8(ascii: "b"): 0x08
    case UInt8(ascii: "a"): 0x07
    default: byte
    }
  }
}

private let doubleQuote = UInt8(ascii: "\"")
private let singleQuote = UInt8(ascii: "'")

/// As C's `isspace`: among them the carriage return at the end of a line.
private func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || (0x09...0x0D).contains(byte) }

extension ProtocolError {
  fileprivate static var unbalancedQuotes: ProtocolError {
    ProtocolError("unbalanced quotes in request")
  }
}
