import Glibc
import TestSupport
import Testing
import UV

@Suite(.timeLimit(.minutes(1))) struct FileReadTests {
  @Test(
    arguments: Place.allCases, [0, 1, 65_535, 65_536, 1_048_576, 1_048_577, 16_777_216, 16_777_217])
  func aFileIsReadWhole(_ place: Place, _ count: Int) async throws {
    try await withDirectory { directory, loop in
      let path = directory.appending("file")
      RawFile.make(path, Pattern.bytes(count))
      try await place.run(loop) {
        let whole = try await FileSystem.readFile(at: path, loop: loop)
        #expect(whole.count == count)
        #expect(Pattern.matches(whole, at: 0))
      }
    }
  }

  @Test func readAllBeginsAtTheStartEveryTime() async throws {
    try await withFile("0123456789") { (file) async throws in
      #expect(try await file.read(upTo: 4) == Array("0123".utf8))
      for _ in 0..<2 { #expect(try await file.readAll() == Array("0123456789".utf8)) }
      #expect(try await file.read(upTo: 100) == Array("456789".utf8))
      #expect(try await file.read(upTo: 100) == nil)
      #expect(try await file.readAll().count == 10)
    }
  }

  @Test func positionalCallsNeitherUseNorMoveTheCursor() async throws {
    try await withFile("0123456789", [.reading, .writing]) { file in
      try await file.setCursor(to: 3)
      #expect(try await file.read(upTo: 2, at: 8) == Array("89".utf8))
      try await file.write("X", at: 9)
      _ = try await file.readAll()
      for try await _ in file.chunks(of: 2) {}
      #expect(try await file.cursor() == 3)
      #expect(try await file.read(upTo: 2) == Array("34".utf8))
      try await file.write("-")
      #expect(try await file.cursor() == 6)
      #expect(try await file.readAll() == Array("01234-678X".utf8))
    }
  }

  @Test func everyoneOfManyPositionalReadsGetsItsBytes() async throws {
    let size = 1_000
    try await withFile(Pattern.bytes(200 * size)) { file in
      try await withThrowingTaskGroup { group in
        for part in 0..<200 {
          group.addTask {
            let bytes = try await file.read(upTo: size, at: part * size)
            #expect(bytes == Pattern.bytes(part * size..<(part + 1) * size))
          }
        }
        try await group.waitForAll()
      }
      #expect(try await file.cursor() == 0)
    }
  }

  @Test(arguments: Place.allCases)
  func readersThatShareTheCursorGetEachByteOnce(_ place: Place) async throws {
    // Each record is its own number, so that one that was cut or read twice shows.
    let count = 4_000
    let numbers = (0..<UInt32(count)).map { $0 }
    let bytes = numbers.flatMap { number in withUnsafeBytes(of: number.bigEndian, Array.init) }
    try await withFile(bytes) { file in
      let seen = try await place.run(file.loop) {
        try await withThrowingTaskGroup(of: [UInt32].self) { group in
          for _ in 0..<20 {
            group.addTask {
              var mine: [UInt32] = []
              while let record = try await file.read(upTo: 4) {
                #expect(record.count == 4)
                mine.append(record.reduce(0) { $0 << 8 | UInt32($1) })
              }
              return mine
            }
          }
          return try await group.reduce(into: [UInt32]()) { $0 += $1 }
        }
      }
      #expect(seen.sorted() == numbers)
      #expect(try await file.cursor() == bytes.count)
    }
  }

  @Test func nothingIsThereBeyondTheEnd() async throws {
    try await withFile("abc") { file in
      for offset in [3, 4, 1 << 40, Int.max / 2] {
        #expect(try await file.read(upTo: 10, at: offset) == nil)
        let count = try await withMemory(10) { try await file.read(into: $0, at: offset) }
        #expect(count == nil)
      }
      #expect(try await file.read(upTo: 10, at: 2) == Array("c".utf8))
      for try await _ in file.chunks(from: 3) { Issue.record("there is nothing") }
      try await file.setCursor(to: 1_000)
      #expect(try await file.read(upTo: 1) == nil)
      #expect(try await file.cursor() == 1_000)
    }
  }

  @Test(arguments: [-1, -2, Int.min]) func aNegativeOffsetIsRefused(_ offset: Int) async throws {
    try await withFile("abc") { (file) async throws in
      await expectError(.invalidArgument, on: file.path) {
        _ = try await file.read(upTo: 1, at: offset)
      }
      await expectError(.invalidArgument) {
        _ = try await withMemory(1) { try await file.read(into: $0, at: offset) }
      }
      await expectError(.invalidArgument) { for try await _ in file.chunks(from: offset) {} }
      await expectError(.invalidArgument) { for try await _ in file.lines(from: offset) {} }
      await expectError(.invalidArgument) { try await file.setCursor(to: offset) }
      #expect(try await file.read(upTo: 1) == Array("a".utf8))
    }
  }

  @Test func aReadOfNothingIsNotTheEnd() async throws {
    try await withFile("abc") { (file) async throws in
      #expect(try await file.read(upTo: 0) == [])
      #expect(try await file.read(upTo: 0, at: 50) == [])
      let empty = UnsafeMutableRawBufferPointer(start: nil, count: 0)
      #expect(try await file.read(into: empty) == 0)
      #expect(try await file.read(into: [empty, empty], at: 3) == 0)
      #expect(try await file.read(into: []) == 0)
      #expect(try await file.cursor() == 0)
    }
  }

  /// More than the system takes in one call.
  @Test(arguments: [nil, 100]) func fiveThousandPiecesAreFilled(from offset: Int?) async throws {
    let count = 5_000
    let size = 7
    try await withFile(Pattern.bytes(100 + count * size + 3)) { file in
      try await withMemory(count * size) { (memory) async throws in
        let pieces = (0..<count).map {
          UnsafeMutableRawBufferPointer(rebasing: memory[$0 * size..<($0 + 1) * size])
        }
        #expect(try await file.read(into: pieces, at: offset) == count * size)
        #expect(Pattern.matches(Array(memory), at: offset ?? 0))
      }
      #expect(try await file.cursor() == (offset == nil ? count * size : 0))
    }
  }

  @Test func readIntoMemoryStopsAtTheEnd() async throws {
    try await withFile(Pattern.bytes(150)) { file in
      try await withMemory(100) { (memory) async throws in
        let halves = [
          UnsafeMutableRawBufferPointer(rebasing: memory[..<40]),
          UnsafeMutableRawBufferPointer(start: nil, count: 0),
          UnsafeMutableRawBufferPointer(rebasing: memory[40...]),
        ]
        #expect(try await file.read(into: halves) == 100)
        #expect(Pattern.matches(Array(memory), at: 0))
        #expect(try await file.read(into: halves) == 50)
        #expect(Pattern.matches(Array(memory[..<50]), at: 100))
        #expect(Pattern.matches(Array(memory[50...]), at: 50))
        #expect(try await file.read(into: halves) == nil)
      }
    }
  }

  /// In one call, and past 2 and 4 GiB.
  @Test func moreThanTwoGiBAreReadInOneCall() async throws {
    try await withDirectory { directory, loop in
      let path = directory.appending("sparse")
      let size = 3 << 30
      let mark = Pattern.bytes(1_000)
      RawFile.makeSparse(path, size: size, mark, at: size - mark.count)
      try await FileSystem.withFile(at: path, loop: loop) { file in
        // The same memory again and again: what comes is as much as asked for, and the last piece is the mark.
        try await withMemory(1 << 20) { (memory) async throws in
          let last = UnsafeMutableRawBufferPointer(rebasing: memory[..<1_000])
          let pieces = Array(repeating: memory, count: size >> 20)
          var before = pieces.dropLast()
          before.append(UnsafeMutableRawBufferPointer(rebasing: memory[1_000...]))
          #expect(try await file.read(into: before + [last]) == size)
          #expect(Array(last) == mark)
        }
        #expect(try await file.cursor() == size)
        #expect(try await file.read(upTo: 2_000, at: size - 500)?.count == 500)
      }
    }
  }

  /// Their size says nothing of what is in them.
  @Test(arguments: [
    "/proc/self/status", "/proc/cpuinfo", "/sys/kernel/mm/transparent_hugepage/enabled",
  ])
  func filesThatTheSystemMakesUpAreReadWhole(_ path: FilePath) async throws {
    guard let expected = RawFile.content(path) else { return }
    // What changes from read to read is not compared.
    func head(_ bytes: [UInt8]) -> ArraySlice<UInt8> { bytes.prefix(6) }
    try await withDirectory { directory, loop in
      let whole = try await FileSystem.readFile(at: path, loop: loop)
      #expect(head(whole) == head(expected))
      #expect(whole.count > expected.count / 2)
      #expect(whole.last == UInt8(ascii: "\n"))
      try await FileSystem.withFile(at: path, loop: loop) { file in
        for size in [5, 65_536] {
          var bytes: [UInt8] = []
          for try await chunk in file.chunks(of: size) { bytes += chunk }
          #expect(head(bytes) == head(expected))
          #expect(bytes.count > expected.count / 2)
          #expect(bytes.last == UInt8(ascii: "\n"))
        }
      }
      let copy = directory.appending("copy")
      try await FileSystem.copyFile(from: path, to: copy, loop: loop)
      let copied = try #require(RawFile.content(copy))
      #expect(head(copied) == head(expected))
      #expect(copied.count > expected.count / 2)
      #expect(copied.last == UInt8(ascii: "\n"))
    }
  }

  @Test func chunksFollowAFileThatGrowsAndEndWhereItShrinks() async throws {
    try await withFile(Pattern.bytes(1_000), [.reading, .writing]) { file in
      var received = 0
      // One chunk is read ahead, so the file changes two before its end.
      for try await chunk in file.chunks(of: 100) {
        #expect(Pattern.matches(chunk, at: received))
        received += chunk.count
        if received == 700 { try await file.write(Pattern.bytes(1_000..<2_050), at: 1_000) }
      }
      #expect(received == 2_050)
      received = 0
      for try await chunk in file.chunks(of: 100) {
        received += chunk.count
        if received == 300 { try await file.truncate(to: 450) }
      }
      // What was read ahead may be from before.
      #expect(received == 450 || received == 500)
    }
  }

  @Test(arguments: Place.allCases)
  func chunksAreThePiecesOfTheFile(_ place: Place) async throws {
    try await withFile(Pattern.bytes(1_050)) { file in
      try await place.run(file.loop) {
        var sizes: [Int] = []
        var received = 50
        for try await chunk in file.chunks(of: 300, from: 50) {
          #expect(Pattern.matches(chunk, at: received))
          sizes.append(chunk.count)
          received += chunk.count
        }
        #expect(sizes == [300, 300, 300, 100])
        let iterator = file.chunks(of: 1_050).makeAsyncIterator()
        #expect(try await iterator.next()?.count == 1_050)
        for _ in 0..<3 { #expect(try await iterator.next() == nil) }
      }
    }
  }

  @Test func chunksThatNobodyTakesAnyMoreLetTheFileClose() async throws {
    try await withFile(Pattern.bytes(100_000)) { file in
      for round in 0..<200 {
        var left = round % 5
        for try await _ in file.chunks(of: 10) {
          left -= 1
          if left <= 0 { break }
        }
      }
    }
  }

  @Test func aCancelledChunkIsThereForTheNextCall() async throws {
    let count = 60_000
    try await withFile(Pattern.bytes(count)) { file in
      let chunks = UnsafeSendable(file.chunks(of: 100).makeAsyncIterator())
      var received = 0
      var cancelled = 0
      var isAtEnd = false
      while !isAtEnd {
        let next = Task { try await chunks.value.next() }
        if received % 300 == 0 { await Task.yield() }
        next.cancel()
        do {
          guard let chunk = try await next.value else {
            isAtEnd = true
            continue
          }
          #expect(Pattern.matches(chunk, at: received))
          received += chunk.count
        } catch is CancellationError {
          cancelled += 1
        }
      }
      #expect(received == count)
    }
  }

  // MARK: Lines

  @Test(
    arguments: [
      ("", []), ("\n", [""]), ("a", ["a"]), ("a\n", ["a"]), ("a\nb", ["a", "b"]),
      ("a\r\nb\r\n", ["a", "b"]), ("a\n\n\r\nb\n", ["a", "", "", "b"]), ("a\rb\n", ["a\rb"]),
      ("a\r", ["a\r"]), ("é\n→", ["é", "→"]),
    ] as [(String, [String])])
  func linesEndWithTheirEnds(_ text: String, _ expected: [String]) async throws {
    try await withFile(Array(text.utf8)) { file in
      var lines: [String] = []
      for try await line in file.lines() { lines.append(line) }
      #expect(lines == expected)
    }
  }

  @Test func linesGoOverTheEndsOfChunks() async throws {
    let lines = (0..<3_000).map { String(repeating: "x", count: $0 % 97) + "\($0)" }
    try await withFile(Array(lines.joined(separator: "\r\n").utf8)) { file in
      var read: [String] = []
      for try await line in file.lines() { read.append(line) }
      #expect(read == lines)
    }
  }

  @Test func whatIsNotTextInALineIsReplaced() async throws {
    try await withFile([0x61, 0xFF, 0x62, 0x0A, 0xC3]) { file in
      var lines: [String] = []
      for try await line in file.lines() { lines.append(line) }
      #expect(lines == ["a\u{FFFD}b", "\u{FFFD}"])
    }
  }

  @Test(arguments: ["\n", "\r\n", ""]) func aLineMayBeAsLongAsTheLimit(_ end: String) async throws {
    for limit in [1, 65_534, 65_535, 65_536, 70_000] {
      let line = String(repeating: "x", count: limit)
      try await withFile("\(line)\(end)") { file in
        var lines: [String] = []
        for try await line in file.lines(upTo: limit) { lines.append(line) }
        #expect(lines == [line])
        for try await line in file.lines(upTo: .max) { #expect(line.utf8.count == limit) }
        let error = await #expect(throws: LineTooLong.self) {
          for try await _ in file.lines(upTo: limit - 1) {}
        }
        #expect(error?.subject == "\(file.path)" && error?.limit == limit - 1)
      }
    }
  }

  /// It ends long before all of it is in memory.
  @Test func aLineWithoutAnEndIsGivenUp() async throws {
    try await withFile("short\n" + String(repeating: "x", count: 300_000)) { file in
      var lines: [String] = []
      await #expect(throws: LineTooLong.self) {
        for try await line in file.lines(upTo: 1_000) { lines.append(line) }
      }
      #expect(lines == ["short"])
    }
  }

  // MARK: Errors

  @Test func aDirectoryCannotBeRead() async throws {
    try await withDirectory { directory, loop in
      try await FileSystem.withFile(at: directory, loop: loop) { (file) async throws in
        await expectError(.isDirectory, on: directory) { _ = try await file.read(upTo: 1) }
        await expectError(.isDirectory, on: directory) { _ = try await file.readAll() }
        #expect(try await file.info().kind == .directory)
      }
    }
  }

  @Test func cancelledReadsAtTheCursorSkipNothing() async throws {
    try await withDirectory { directory, loop in
      let path = directory.appending("file")
      RawFile.make(path, Pattern.bytes(100_000))
      try await FileSystem.withFile(at: path, loop: loop) { file in
        var bytes: [UInt8] = []
        var numbers = SeededNumbers(seed: 7)
        while bytes.count < 100_000 {
          let reading = Task { try await file.read(upTo: 200) }
          for _ in 0..<Int.random(in: 0..<20, using: &numbers) { await Task.yield() }
          reading.cancel()
          do { bytes += try await reading.value ?? [] } catch is CancellationError {}
        }
        let isWhole = bytes == Pattern.bytes(100_000)
        #expect(isWhole)
      }
    }
  }

  @Test func aFileThatIsOpenForWritingCannotBeRead() async throws {
    try await withFile("abc", .writing) { (file) async throws in
      await expectError(.badDescriptor, on: file.path) { _ = try await file.read(upTo: 1) }
      await expectError(.badDescriptor, on: file.path) { _ = try await file.readAll() }
      #expect(try await file.cursor() == 0)
    }
  }
}

/// A file with `bytes`, open.
private func withFile(
  _ bytes: [UInt8], _ options: FileOptions = .reading, _ body: (File) async throws -> Void
) async throws {
  try await withDirectory { directory, loop in
    let path = directory.appending("file")
    RawFile.make(path, bytes)
    try await FileSystem.withFile(at: path, options, loop: loop, body)
  }
}

private func withFile(
  _ text: String, _ options: FileOptions = .reading, _ body: (File) async throws -> Void
) async throws {
  try await withFile(Array(text.utf8), options, body)
}

/// An iterator that one task after the other uses.
private struct UnsafeSendable<Value>: @unchecked Sendable {
  let value: Value

  init(_ value: Value) { self.value = value }
}
