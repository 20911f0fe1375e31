import Glibc
import TestSupport
import Testing
import UV

@Suite(.timeLimit(.minutes(1))) struct FileWriteTests {
  @Test(
    arguments: Place.allCases, [0, 1, 65_536, 1_048_577, 16_777_216, 16_777_217])
  func everyByteArrives(_ place: Place, _ count: Int) async throws {
    try await withFile { file in
      try await place.run(file.loop) { try await file.write(Pattern.bytes(count)) }
      let content = RawFile.content(file.path)!
      #expect(content.count == count)
      #expect(Pattern.matches(content, at: 0))
      #expect(try await file.cursor() == count)
    }
  }

  @Test func everyCollectionOfBytesAndEveryTextIsWritten() async throws {
    try await withFile { file in
      try await file.write("12".utf8)
      try await file.write([UInt8]("x34".utf8).dropFirst())
      try await file.write("x56".dropFirst())
      try await file.write("6".utf8.reversed(), at: 4)
      #expect(text(of: file) == "123466")
      let path = file.path
      try await FileSystem.writeFile("ab".utf8.reversed(), to: path, loop: file.loop)
      #expect(text(of: file) == "ba")
      try await FileSystem.writeFile("xcd".dropFirst(), to: path, loop: file.loop)
      #expect(text(of: file) == "cd")
      try await FileSystem.replaceFile(at: path, with: "ef".utf8.reversed(), loop: file.loop)
      #expect(RawFile.content(path) == Array("fe".utf8))
      try await FileSystem.replaceFile(at: path, with: "xgh".dropFirst(), loop: file.loop)
      #expect(RawFile.content(path) == Array("gh".utf8))
    }
  }

  /// Forgetting `.writing` would make a file that cannot be written.
  @Test func whatIsMadeOrEmptiedIsForWriting() async throws {
    try await withFile { file in
      for options: FileOptions in [.create, [.create, .truncate], .truncate] {
        try await FileSystem.withFile(at: file.path, options, loop: file.loop) {
          try await $0.write("x")
        }
      }
      try await FileSystem.withFile(at: file.path, [.create, .reading], loop: file.loop) {
        let content = try await $0.readAll()
        #expect(content == Array("x".utf8))
      }
    }
  }

  @Test func writesWithoutAnOffsetFollowEachOther() async throws {
    try await withFile { file in
      try await file.write("one ")
      try await file.write(contentsOf: ["two ", "", "three "].map { Array($0.utf8) })
      try await withMemory(4) { memory in
        memory.copyBytes(from: "four".utf8)
        try await file.write(from: [UnsafeRawBufferPointer(memory)])
      }
      #expect(text(of: file) == "one two three four")
      try await file.setCursor(to: 4)
      try await file.write("TWO")
      #expect(text(of: file) == "one TWO three four")
      #expect(try await file.cursor() == 7)
    }
  }

  @Test(arguments: Place.allCases)
  func writersThatShareTheCursorLoseNothing(_ place: Place) async throws {
    try await withFile { file in
      try await place.run(file.loop) {
        try await withThrowingTaskGroup { group in
          for writer in 0..<20 {
            group.addTask {
              for round in 0..<20 {
                try await file.write(record(writer, round, size: 100))
              }
            }
          }
          try await group.waitForAll()
        }
      }
      expectRecords(in: file.path, size: 100, writers: 20, each: 20)
    }
  }

  @Test func positionalWritesGoWhereTheyAreTold() async throws {
    try await withFile { file in
      let size = 1_000
      try await withThrowingTaskGroup { group in
        for part in (0..<100).reversed() {
          group.addTask {
            try await file.write(Pattern.bytes(part * size..<(part + 1) * size), at: part * size)
          }
        }
        try await group.waitForAll()
      }
      #expect(RawFile.content(file.path) == Pattern.bytes(100 * size))
      #expect(try await file.cursor() == 0)
    }
  }

  @Test func aGapReadsAsZeros() async throws {
    try await withFile { file in
      try await file.write("a")
      try await file.write("b", at: 5)
      #expect(try await file.readAll() == [0x61, 0, 0, 0, 0, 0x62])
      try await file.setCursor(to: 8)
      try await file.write("c")
      #expect(try await file.readAll() == [0x61, 0, 0, 0, 0, 0x62, 0, 0, 0x63])
    }
  }

  @Test(arguments: [-1, Int.min]) func aNegativeOffsetIsRefused(_ offset: Int) async throws {
    try await withFile { (file) async throws in
      await expectError(.invalidArgument, on: file.path) { try await file.write("x", at: offset) }
      await expectError(.invalidArgument) {
        try await withMemory(1) { try await file.write(from: [.init($0)], at: offset) }
      }
      #expect(try await file.readAll() == [])
    }
  }

  @Test func aWriteOfNothingChangesNothing() async throws {
    try await withFile { file in
      try await file.write("abc")
      try await file.write([UInt8]())
      try await file.write(contentsOf: [[UInt8]]())
      try await file.write(contentsOf: [[], [], []])
      try await file.write("", at: 1_000)
      try await file.write(from: [UnsafeRawBufferPointer(start: nil, count: 0)], at: 1_000)
      #expect(text(of: file) == "abc")
      #expect(try await file.cursor() == 3)
    }
  }

  /// More than the system takes in one call.
  @Test(arguments: [nil, 50]) func fiveThousandPiecesAreWritten(at offset: Int?) async throws {
    let count = 5_000
    let size = 9
    let pieces = (0..<count).map { Pattern.bytes($0 * size..<($0 + 1) * size) }
    try await withFile { file in
      try await file.write(contentsOf: pieces, at: offset)
      #expect(
        RawFile.content(file.path)!.dropFirst(offset ?? 0) == Pattern.bytes(count * size)[...])
      try await file.truncate(to: 0)
      try await file.setCursor(to: 0)
      try await withMemory(count * size) { memory in
        memory.copyBytes(from: Pattern.bytes(count * size))
        let parts = (0..<count).map {
          UnsafeRawBufferPointer(rebasing: memory[$0 * size..<($0 + 1) * size])
        }
        try await file.write(from: parts, at: offset)
      }
      #expect(
        RawFile.content(file.path)!.dropFirst(offset ?? 0) == Pattern.bytes(count * size)[...])
      #expect(try await file.cursor() == (offset == nil ? count * size : 0))
    }
  }

  @Test func piecesOfAnySizeKeepTheirOrder() async throws {
    let sizes = [1, 65_535, 0, 65_536, 70_000, 10, 1_048_576, 3, 300_000, 900_000, 17_000_000, 5]
    var pieces: [[UInt8]] = []
    var total = 0
    for size in sizes {
      pieces.append(Pattern.bytes(total..<total + size))
      total += size
    }
    try await withFile { file in
      try await file.write(contentsOf: pieces)
      let content = RawFile.content(file.path)!
      #expect(content.count == total)
      #expect(Pattern.matches(content, at: 0))
    }
  }

  // MARK: Appending

  @Test func appendingGoesToTheEndWhateverTheOffset() async throws {
    try await withDirectory { directory, loop in
      let path = directory.appending("file")
      RawFile.make(path, "old ")
      try await FileSystem.withFile(at: path, [.appending, .reading], loop: loop) { file in
        try await file.write("one ", at: 0)
        try await file.write("two ")
        #expect(try await file.read(upTo: 3) == Array("old".utf8))
        try await file.write("three")
        #expect(try await file.cursor() == 3)
      }
      #expect(RawFile.content(path) == Array("old one two three".utf8))
    }
  }

  /// Pieces that are too large to be put together are still one record.
  @Test(arguments: [
    [100], [70, 50], [65_536, 65_536], [10, 70_000, 10, 70_000], [700_000, 700_000],
  ])
  func recordsOfTwoAppendersStayWhole(_ pieces: [Int]) async throws {
    try await withDirectory { directory, loop in
      let path = directory.appending("file")
      let size = pieces.reduce(0, +)
      let rounds = max(5, min(100, 10_000_000 / size))
      try await withThrowingTaskGroup { group in
        for writer in 0..<3 {
          group.addTask {
            try await FileSystem.withFile(at: path, [.appending, .create], loop: loop) { file in
              for round in 0..<rounds {
                var rest = record(writer, round, size: size)[...]
                let parts = pieces.map { count in
                  defer { rest = rest.dropFirst(count) }
                  return Array(rest.prefix(count))
                }
                try await file.write(contentsOf: parts)
              }
            }
          }
        }
        try await group.waitForAll()
      }
      expectRecords(in: path, size: size, writers: 3, each: rounds)
    }
  }

  // MARK: Errors

  @Test func aFileThatIsOpenForReadingCannotBeWritten() async throws {
    try await withDirectory { directory, loop in
      let path = directory.appending("file")
      RawFile.make(path, "kept")
      try await FileSystem.withFile(at: path, loop: loop) { (file) async throws in
        let error = await expectError(.badDescriptor, on: path) { try await file.write("x") }
        #expect(error?.operation == "write")
        #expect(error?.bytesWritten == 0)
        await expectError(.invalidArgument, on: path) { try await file.truncate(to: 0) }
        #expect(try await file.cursor() == 0)
      }
      #expect(RawFile.content(path) == Array("kept".utf8))
    }
  }

  @Test func aFullDeviceIsAnError() async throws {
    try await withLoop { loop in
      let error = await expectError(.noSpace, on: "/dev/full") {
        try await FileSystem.writeFile("x", to: "/dev/full", [], loop: loop)
      }
      #expect(error?.bytesWritten == 0)
      #expect(error?.description.contains("ENOSPC") == true)
    }
  }

  /// A limit of the process stands for a disk that becomes full half-way.
  @Test func aWriteThatRunsOutOfRoomSaysHowMuchItWrote() async throws {
    await #expect(processExitsWith: .success) {
      try await withDirectory { directory, loop in
        let room = 20_000_000
        var limit = rlimit(rlim_cur: rlim_t(room), rlim_max: rlim_t(room))
        precondition(setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit) == 0)
        let path = directory.appending("file")
        try await FileSystem.withFile(at: path, [.writing, .create], loop: loop) { file in
          try await file.write(Pattern.bytes(1_000))
          let error = await expectError(.fileTooLarge, on: path) {
            try await file.write(Pattern.bytes(1_000..<room + 4_000))
          }
          precondition(error?.bytesWritten == room - 1_000)
          let cursor = try await file.cursor()
          precondition(cursor == room)
          let again = await expectError(.fileTooLarge) { try await file.write("x") }
          precondition(again?.bytesWritten == 0)
          // Pieces fail where they fail, whatever was put together.
          try await file.truncate(to: room - 100_000)
          let inPieces = await expectError(.fileTooLarge) {
            try await file.write(
              contentsOf: [Pattern.bytes(70_000), Pattern.bytes(20), Pattern.bytes(70_000)],
              at: room - 100_000)
          }
          precondition(inPieces?.bytesWritten == 100_000)
          try await file.write(Pattern.bytes(room - 100_000..<room), at: room - 100_000)
        }
        let content = RawFile.content(path)!
        precondition(content.count == room && Pattern.matches(content, at: 0))
      }
    }
  }

  @Test func moreThanTwoGiBAreWrittenInOneCall() async throws {
    try await withLoop { loop in
      let size = 3 << 30
      try await FileSystem.withFile(at: "/dev/null", .writing, loop: loop) { file in
        try await withMemory(1 << 20) { memory in
          let pieces = Array(repeating: UnsafeRawBufferPointer(memory), count: size >> 20)
          try await file.write(from: pieces)
          #expect(try await file.cursor() == size)
        }
      }
    }
  }

  @Test func farOffsetsAreReached() async throws {
    try await withFile { file in
      let far = 5 << 30
      try await file.write("far", at: far)
      try await file.setCursor(to: far + 3)
      try await file.write("ther")
      let info = try await file.info()
      #expect(info.size == far + 7)
      #expect(info.allocatedSize < 1 << 20)
      #expect(try await file.read(upTo: 100, at: far) == Array("farther".utf8))
      try await file.truncate(to: 3)
      #expect(try await file.readAll() == [0, 0, 0])
    }
  }

  @Test(arguments: [nil, 0])
  func aWriteFromMemoryHasLetGoOfItWhenItEnds(at offset: Int?) async throws {
    try await withFile { file in
      for round in 0..<200 {
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: 300_000, alignment: 16)
        memory.initializeMemory(as: UInt8.self, repeating: UInt8(round))
        // Used by the task alone until it has ended.
        nonisolated(unsafe) let shared = memory
        let writing = Task {
          try await file.write(from: [.init(shared), .init(shared)], at: offset)
        }
        if round % 2 == 0 { await Task.yield() }
        writing.cancel()
        do { try await writing.value } catch is CancellationError {}
        // Would show in the file if the write still went on.
        memory.initializeMemory(as: UInt8.self, repeating: 0xFF)
        memory.deallocate()
      }
      #expect(!RawFile.content(file.path)!.contains(0xFF))
    }
  }
}

/// A new file that may be read and written.
private func withFile(_ body: (File) async throws -> Void) async throws {
  try await withDirectory { directory, loop in
    try await FileSystem.withFile(
      at: directory.appending("file"), [.reading, .writing, .create], loop: loop, body)
  }
}

private func text(of file: File) -> String? {
  RawFile.content(file.path).map { String(decoding: $0, as: UTF8.self) }
}

/// `size` bytes that say who wrote them and when, at both ends and all over.
private func record(_ writer: Int, _ round: Int, size: Int) -> [UInt8] {
  Array(repeating: UInt8(truncatingIfNeeded: writer * 64 + round % 64), count: size - 2) + [
    UInt8(writer), UInt8(round),
  ]
}

private func expectRecords(
  in path: FilePath, size: Int, writers: Int, each rounds: Int,
  sourceLocation: SourceLocation = #_sourceLocation
) {
  let content = RawFile.content(path)!
  #expect(content.count == size * writers * rounds, sourceLocation: sourceLocation)
  var seen: Set<[Int]> = []
  for start in stride(from: 0, to: content.count - size + 1, by: size) {
    let part = Array(content[start..<start + size])
    let (writer, round) = (Int(part[size - 2]), Int(part[size - 1]))
    guard writer < writers, part == record(writer, round, size: size) else {
      Issue.record("no whole record at \(start)", sourceLocation: sourceLocation)
      return
    }
    seen.insert([writer, round])
  }
  #expect(seen.count == writers * rounds, sourceLocation: sourceLocation)
}
