/// Takes what a client sends apart into requests, whatever the pieces are that it comes in.
///
/// A request is an array of bulk strings, `*2\r\n$3\r\nGET\r\n$1\r\nk\r\n`, or a line of words for people: `GET k`. Nothing is read twice but
/// a line that is not complete, and nothing is copied.
struct RequestParser {
  static let lineLimit = 65_536
  static let argumentLimit = 1_048_576
  static let requestLimit = 1 << 30

  /// How far it is with a request.
  private enum State {
    case begin
    case length(missing: Int)
    case bulk(length: Int, missing: Int)
  }

  /// How long an argument may be.
  private let bulkLimit: Int
  private var state = State.begin
  /// Where in the request it is.
  private var position = 0
  /// Where in the request its arguments are.
  private var ranges: [Range<Int>] = []

  init(bulkLimit: Int) { self.bulkLimit = bulkLimit }

  /// Reads on in the request that `input` begins with, until it is complete.
  ///
  /// - Parameter input: After `nil` the same bytes and more, wherever they are now. Of a line, quotes are removed in its memory.
  /// - Returns: The request, perhaps without arguments, and how many bytes it has; `nil` if there must be more first.
  mutating func next(
    in input: UnsafeMutableRawBufferPointer
  ) throws(ProtocolError) -> (arguments: Arguments, count: Int)? {
    guard let count = try findEnd(of: input) else { return nil }
    state = .begin
    let arguments = Arguments(Bytes(input), ranges)
    // What a huge request needed goes with it.
    if ranges.capacity > 1_024 { ranges = [] }
    return (arguments, count)
  }

  private mutating func findEnd(
    of input: UnsafeMutableRawBufferPointer
  ) throws(ProtocolError) -> Int? {
    while true {
      switch state {
      case .begin:
        guard let first = input.first else { return nil }
        position = 0
        ranges.removeAll(keepingCapacity: true)
        guard first == UInt8(ascii: "*") else { return try splitLine(input) }
        guard let count = try readHeader(.count, Bytes(input)) else { return nil }
        if count <= 0 { return position }
        state = .length(missing: count)
      case .length(let missing):
        if missing == 0 { return position }
        guard let length = try readHeader(.length, Bytes(input)) else { return nil }
        state = .bulk(length: length, missing: missing)
      case .bulk(let length, let missing):
        guard try readBulk(length, Bytes(input)) else { return nil }
        state = .length(missing: missing - 1)
      }
    }
  }

  // MARK: Arrays

  private enum Header { case count, length }

  /// Reads a line with a number, such as `$3\r\n`; `nil` if it is not complete.
  private mutating func readHeader(
    _ header: Header, _ input: Bytes
  ) throws(ProtocolError) -> Int? {
    guard position < input.count else { return nil }
    if header == .length, input[position] != UInt8(ascii: "$") {
      let found = Bytes(rebasing: input[position...position]).text(upTo: 1)
      throw ProtocolError("expected '$', got '\(found)'")
    }
    var end = position + 1
    while end < input.count, input[end] != .carriageReturn { end += 1 }
    guard end - position <= RequestParser.lineLimit else {
      throw ProtocolError("too big \(header == .count ? "mbulk" : "bulk") count string")
    }
    guard end + 1 < input.count else { return nil }
    let number = Int(Bytes(rebasing: input[position + 1..<end]))
    let isAllowed =
      switch header {
      // A null array, or one of less than nothing, is a request without arguments.
      case .count: number.map { $0 <= RequestParser.argumentLimit } ?? false
      case .length: number.map { (0...bulkLimit).contains($0) } ?? false
      }
    guard let number, isAllowed else {
      throw ProtocolError("invalid \(header == .count ? "multibulk" : "bulk") length")
    }
    try checkLineEnd(at: end, input)
    position = end + 2
    return number
  }

  /// Reads the bytes of an argument. Returns whether they are there.
  private mutating func readBulk(_ length: Int, _ input: Bytes) throws(ProtocolError) -> Bool {
    let end = position + length
    guard end <= RequestParser.requestLimit else { throw ProtocolError("too big request") }
    guard end + 2 <= input.count else { return false }
    try checkLineEnd(at: end, input)
    ranges.append(position..<end)
    position = end + 2
    return true
  }

  /// Redis looks at no byte here, and takes what follows a wrong length for commands.
  private func checkLineEnd(at end: Int, _ input: Bytes) throws(ProtocolError) {
    guard input[end] == .carriageReturn, input[end + 1] == .lineFeed else {
      throw ProtocolError("expected CRLF")
    }
  }

  // MARK: Lines

  private mutating func splitLine(
    _ input: UnsafeMutableRawBufferPointer
  ) throws(ProtocolError) -> Int? {
    let newline = input.prefix(RequestParser.lineLimit + 1).firstIndex(of: .lineFeed)
    guard let newline else {
      if input.count > RequestParser.lineLimit { throw ProtocolError("too big inline request") }
      return nil
    }
    var words = LineWords(UnsafeMutableRawBufferPointer(rebasing: input[..<newline]))
    while let word = try words.next() { ranges.append(word) }
    return newline + 1
  }
}

/// The arguments of a request, of which the first is the name of the command. Valid while its input is.
struct Arguments {
  private let bytes: Bytes
  private let ranges: [Range<Int>]

  init(_ bytes: Bytes, _ ranges: [Range<Int>]) {
    self.bytes = bytes
    self.ranges = ranges
  }

  var count: Int { ranges.count }

  subscript(index: Int) -> Bytes { Bytes(rebasing: bytes[ranges[index]]) }
}

/// What a client has sent is no request, so that nobody knows where the next one would begin.
struct ProtocolError: Error, CustomStringConvertible {
  let description: String

  init(_ message: String) { description = "Protocol error: \(message)" }
}
