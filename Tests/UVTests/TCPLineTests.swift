import TestSupport
import Testing
import UV

private let newline = UInt8(ascii: "\n")

@Suite(.timeLimit(.minutes(1))) struct TCPLineTests {
  @Test(arguments: Place.allCases)
  func lineMayComeInPieces(_ place: Place) async throws {
    try await withConnectedStreams(place) { near, far in
      let writer = Task {
        for piece in ["he", "llo", "\r", "\n", "wor", "ld\r\nre", "st", "\n"] {
          try await far.write(piece)
          try await far.loop.someTurns()
        }
      }
      #expect(try await near.read(until: newline) == Array("hello\r\n".utf8))
      #expect(try await near.readLine() == "world")
      #expect(try await near.readLine() == "rest")
      try await writer.value
    }
  }

  @Test(arguments: Place.allCases)
  func linesThatComeTogetherAreReadOneByOne(_ place: Place) async throws {
    try await withConnectedStreams(place) { near, far in
      try await far.write("a\nbb\n\n\r\nccc\nrest")
      try await far.shutdownSending()
      #expect(try await near.read(until: newline) == Array("a\n".utf8))
      for line in ["bb", "", "", "ccc", "rest"] { #expect(try await near.readLine() == line) }
      #expect(try await near.readLine() == nil)
    }
  }

  @Test(arguments: Place.allCases)
  func theLinesOfAStreamEndWithIt(_ place: Place) async throws {
    try await withConnectedStreams(place) { near, far in
      try await far.write("a\nbb\n")
      for try await line in near.lines() where line == "a" { break }
      try await far.write("\r\nrest")
      try await far.shutdownSending()
      var lines: [String] = []
      for try await line in near.lines(upTo: 4) { lines.append(line) }
      #expect(lines == ["bb", "", "rest"])
      for try await line in near.lines() { Issue.record("\(line) came after the end") }
    }
  }

  @Test(arguments: Place.allCases)
  func aLineOfTheSequenceMayBeTooLong(_ place: Place) async throws {
    try await withConnectedStreams(place) { near, far in
      try await far.write("12345\n")
      await #expect(throws: LineTooLong(subject: "\(near.peerAddress!)", limit: 5)) {
        for try await line in near.lines(upTo: 5) { Issue.record("\(line) is too long") }
      }
      #expect(try await near.readLine() == "12345")
    }
  }

  @Test(arguments: Place.allCases)
  func aThousandPipelinedLinesAreReadOneByOne(_ place: Place) async throws {
    let lines = (0..<1_000).map { "line \($0)" }
    try await withConnectedStreams(place) { near, far in
      let writer = Task { try await far.write(lines.map { $0 + "\n" }.joined()) }
      for line in lines { #expect(try await near.readLine() == line) }
      try await writer.value
    }
  }

  /// A search that was given up is gone on with for the same delimiter alone.
  @Test(arguments: Place.allCases)
  func otherDelimiterIsSearchedFromTheStart(_ place: Place) async throws {
    try await withConnectedStreams(place) { near, far in
      try await far.write("a;b;c")
      let waiting = Task(executorPreference: near.loop) { try await near.read(until: newline) }
      for _ in 0..<3 { try await near.loop.someTurns() }
      waiting.cancel()
      await #expect(throws: CancellationError.self) { try await waiting.value }
      #expect(try await near.read(until: UInt8(ascii: ";")) == Array("a;".utf8))
      try await far.write("\n")
      #expect(try await near.read(until: newline) == Array("b;c\n".utf8))
    }
  }

  @Test(arguments: Place.allCases)
  func lineCancelledInTheMiddleIsReadAsAWhole(_ place: Place) async throws {
    try await withConnectedStreams(place) { near, far in
      for _ in 0..<20 {
        let waiting = Task(executorPreference: near.loop) { try await near.readLine() }
        try await near.loop.someTurns()
        try await far.write("half")
        try await near.loop.someTurns()
        waiting.cancel()
        await #expect(throws: CancellationError.self) { try await waiting.value }
      }
      try await far.write("\n")
      #expect(try await near.readLine() == String(repeating: "half", count: 20))
    }
  }

  // MARK: Limits

  @Test(arguments: Place.allCases, [1, 2, 1_000, 65_535, 65_536, 65_537, 300_000])
  func aLineMayBeAsLongAsTheLimit(_ place: Place, _ limit: Int) async throws {
    let line = [UInt8](repeating: UInt8(ascii: "x"), count: limit - 1) + [newline]
    try await withConnectedStreams(place) { near, far in
      let writer = Task {
        try await far.write(line)
        try await far.write(line)
      }
      for _ in 0..<2 {
        let read = try await near.read(until: newline, upTo: limit)
        #expect(read?.count == limit && read?.last == newline)
      }
      try await writer.value
    }
  }

  @Test(arguments: Place.allCases, [1, 2, 1_000, 65_535, 65_536, 65_537, 300_000])
  func aLongerLineIsRefusedAndLeftToOtherReads(_ place: Place, _ limit: Int) async throws {
    let line = [UInt8](repeating: UInt8(ascii: "x"), count: limit) + [newline]
    try await withConnectedStreams(place) { near, far in
      let writer = Task { try await far.write(line) }
      let error = LineTooLong(subject: "\(near.peerAddress!)", limit: limit)
      for _ in 0..<3 {
        await #expect(throws: error) { try await near.read(until: newline, upTo: limit) }
        await #expect(throws: error) { try await near.readLine(upTo: limit) }
      }
      let read = try await near.readLine(upTo: limit + 1)
      #expect(read?.utf8.count == limit)
      try await writer.value
    }
  }

  @Test(arguments: Place.allCases)
  func delimiterIsFoundBeyondWhatIsReadAhead(_ place: Place) async throws {
    let count = 3_000_000
    let line = [UInt8](repeating: UInt8(ascii: "x"), count: count) + [newline]
    try await withConnectedStreams(place) { near, far in
      for limit in [count + 1, 10_000_000, .max] {
        let writer = Task { try await far.write(line) }
        let read = try await near.read(until: newline, upTo: limit)
        #expect(read?.count == count + 1 && read?.last == newline)
        try await writer.value
      }
    }
  }

  @Test(arguments: Place.allCases)
  func senderOfALineWithoutAnEndIsHeld(_ place: Place) async throws {
    try await withConnectedStreams(place, options: .smallBuffers) { near, far in
      let bytes = [UInt8](repeating: UInt8(ascii: "x"), count: 67_108_864)
      let writer = Task { try await far.write(bytes) }
      await #expect(throws: LineTooLong.self) {
        try await near.read(until: newline, upTo: 1_000_000)
      }
      var before = -1
      repeat {
        before = far.bytesQueued
        for _ in 0..<20 { try await near.loop.someTurns() }
      } while before == 0 || far.bytesQueued != before
      #expect(far.bytesQueued > 60_000_000)
      near.abort()
      await #expect(throws: IOError.self) { try await writer.value }
    }
  }

  // MARK: The end of the stream

  @Test(arguments: Place.allCases, [false, true])
  func restIsReadAtTheEndAndThenNothing(_ place: Place, _ waits: Bool) async throws {
    try await withConnectedStreams(place) { near, far in
      let waiting = waits ? Task { try await near.read(until: newline) } : nil
      try await near.loop.someTurns()
      try await far.write("rest")
      try await near.loop.someTurns()
      try await far.shutdownSending()
      let read =
        if let waiting { try await waiting.value } else { try await near.read(until: newline) }
      #expect(read == Array("rest".utf8))
      for _ in 0..<3 { #expect(try await near.read(until: newline) == nil) }
      #expect(try await near.readLine() == nil)
    }
  }

  /// The limit is how many bytes there may be.
  @Test(arguments: Place.allCases)
  func restMayBeAsLongAsTheLimit(_ place: Place) async throws {
    try await withConnectedStreams(place) { near, far in
      try await far.write("rest")
      try await far.shutdownSending()
      #expect(try await near.read(until: newline, upTo: 4) == Array("rest".utf8))
      #expect(try await near.read(until: newline, upTo: 4) == nil)
    }
  }

  @Test(
    arguments: Place.allCases,
    [
      ("line\n", ["line"]), ("line\r\n", ["line"]), ("line", ["line"]), ("line\r", ["line\r"]),
      ("\n", [""]), ("\r\n", [""]), ("\r\r\n", ["\r"]), ("a\rb\n\nc", ["a\rb", "", "c"]),
      ("", []), ("grüße\n", ["grüße"]),
    ])
  func lineEndsAreTakenOff(_ place: Place, _ example: (text: String, lines: [String])) async throws
  {
    try await withConnectedStreams(place) { near, far in
      try await far.write(example.text)
      try await far.shutdownSending()
      for line in example.lines { #expect(try await near.readLine() == line) }
      #expect(try await near.readLine() == nil)
    }
  }

  @Test func whatIsNotTextInALineIsReplaced() async throws {
    try await withConnectedStreams { near, far in
      try await far.write([0x61, 0xFF, 0x62, 0x0A, 0xC3])
      try await far.shutdownSending()
      #expect(try await near.readLine() == "a\u{FFFD}b")
      #expect(try await near.readLine() == "\u{FFFD}")
    }
  }
}
