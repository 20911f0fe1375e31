import Glibc
import TestSupport
import Testing
import UV

@Suite(.timeLimit(.minutes(1))) struct FileReplaceTests {
  @Test func theNewContentTakesThePlaceOfTheOld() async throws {
    try await withOldFile { path, loop in
      RawFile.setPermissions(path, 0o604)
      let value = try await FileSystem.withReplacement(of: path, loop: loop) { file in
        try await file.write("new")
        #expect(try await file.readAll() == Array("new".utf8))
        #expect(RawFile.content(path) == Array("old".utf8))
        return 42
      }
      #expect(value == 42)
      #expect(RawFile.content(path) == Array("new".utf8))
      #expect(RawFile.names(path.parent) == ["file"])
      #expect(try await FileSystem.info(at: path, loop: loop).permissions == 0o604)
    }
  }

  @Test func permissionsAreThoseThatWereAskedFor() async throws {
    try await withOldFile { path, loop in
      try await FileSystem.replaceFile(at: path, with: [1], permissions: 0o666, loop: loop)
      #expect(try await FileSystem.info(at: path, loop: loop).permissions == 0o666)
      let new = path.parent.appending("new")
      try await FileSystem.replaceFile(at: new, with: [1], loop: loop)
      // As any new file.
      let other = path.parent.appending("other")
      try await FileSystem.writeFile("x", to: other, loop: loop)
      let expected = try await FileSystem.info(at: other, loop: loop).permissions
      #expect(try await FileSystem.info(at: new, loop: loop).permissions == expected)
    }
  }

  @Test func theOldContentStaysWhenTheBodyThrows() async throws {
    try await withOldFile { path, loop in
      for synchronizing in [true, false] {
        await #expect(throws: Mistake.self) {
          try await FileSystem.withReplacement(
            of: path, synchronizing: synchronizing, loop: loop
          ) { file in
            try await file.write("new")
            throw Mistake()
          }
        }
      }
      let absent = path.parent.appending("absent")
      await #expect(throws: Mistake.self) {
        try await FileSystem.withReplacement(of: absent, loop: loop) { _ in throw Mistake() }
      }
      #expect(RawFile.content(path) == Array("old".utf8))
      #expect(RawFile.names(path.parent) == ["file"])
    }
  }

  @Test func aSymbolicLinkIsFollowed() async throws {
    try await withOldFile { path, loop in
      let inner = path.parent.appending("inner")
      RawFile.makeDirectory(inner)
      let link = inner.appending("link")
      RawFile.makeLink(link, to: "../file")
      let second = inner.appending("second")
      RawFile.makeLink(second, to: "link")
      try await FileSystem.replaceFile(at: second, with: Array("new".utf8), loop: loop)
      #expect(RawFile.content(path) == Array("new".utf8))
      #expect(RawFile.names(inner) == ["link", "second"])
      #expect(try await FileSystem.readLink(at: second, loop: loop) == "link")
      #expect(RawFile.names(path.parent) == ["file", "inner"])
    }
  }

  @Test func whatCannotBeReplacedIsAnError() async throws {
    try await withOldFile { path, loop in
      let directory = path.parent
      await expectError(.isDirectory, on: directory) {
        try await FileSystem.replaceFile(at: directory, with: [1], loop: loop)
      }
      await expectError(.noSuchFile) {
        try await FileSystem.replaceFile(at: directory.appending("no/no"), with: [1], loop: loop)
      }
      await expectError(.notDirectory) {
        try await FileSystem.replaceFile(at: path.appending("below"), with: [1], loop: loop)
      }
      await expectError(.nameTooLong) {
        let name = String(repeating: "x", count: 300)
        try await FileSystem.replaceFile(at: directory.appending(name), with: [1], loop: loop)
      }
      // The longest name there can be.
      let name = String(repeating: "é", count: 127)
      try await FileSystem.replaceFile(at: directory.appending(name), with: [1], loop: loop)
      #expect(RawFile.names(directory).sorted() == ["file", FilePath(name)].sorted())
    }
  }

  @Test func readersSeeTheOldOrTheNewContentWhole() async throws {
    try await withOldFile { path, loop in
      let size = 50_000
      let rounds = 100
      RawFile.make(path, Array(repeating: 0, count: size))
      let isOver = Event()
      let seen = Tally()
      let replacing = Task {
        defer { isOver.set() }
        for round in 1...rounds {
          // One in ten waits for the device, which may take long.
          try await FileSystem.withReplacement(
            of: path, synchronizing: round % 10 == 0, loop: loop
          ) { file in
            for _ in 0..<5 { try await file.write(Array(repeating: UInt8(round), count: size / 5)) }
          }
        }
      }
      try await withThrowingTaskGroup { group in
        for _ in 0..<3 {
          group.addTask {
            var last: UInt8 = 0
            while !isOver.isSet {
              let content = try await FileSystem.readFile(at: path, loop: loop)
              let first = try #require(content.first)
              let isWhole = content == Array(repeating: first, count: size)
              #expect(isWhole && first >= last)
              last = first
              seen.add()
            }
          }
        }
        try await group.waitForAll()
      }
      try await replacing.value
      #expect(seen.value > 0)
      #expect(RawFile.names(path.parent) == ["file"])
    }
  }

  @Test func aCancelledReplacementLeavesTheOldFileAndNothingElse() async throws {
    try await withOldFile { path, loop in
      var numbers = SeededNumbers(seed: 23)
      let reports = Collected<String>()
      try await withReports(about: path.parent, to: reports) {
        for round in 0..<1_000 {
          let replacing = Task {
            try await FileSystem.withReplacement(of: path, synchronizing: false, loop: loop) {
              try await $0.write("new\(round)")
            }
          }
          for _ in 0..<Int.random(in: 0..<40, using: &numbers) { await Task.yield() }
          let before = RawFile.content(path)
          replacing.cancel()
          do {
            try await replacing.value
            #expect(RawFile.content(path) == Array("new\(round)".utf8))
          } catch is CancellationError {
            await expectNothingLeft(on: loop)
            #expect(RawFile.content(path) == before)
          }
          #expect(RawFile.names(path.parent) == ["file"])
        }
      }
      #expect(reports.values == [])
    }
  }

  @Test func manyReplacementsAtOnceLeaveOneWhole() async throws {
    try await withOldFile { path, loop in
      try await withThrowingTaskGroup { group in
        for number in 0..<100 {
          group.addTask {
            try await FileSystem.withReplacement(of: path, synchronizing: false, loop: loop) {
              try await $0.write(Array(repeating: UInt8(number), count: 10_000))
            }
          }
        }
        try await group.waitForAll()
      }
      let content = RawFile.content(path)!
      #expect(content.count == 10_000 && Set(content).count == 1)
      #expect(RawFile.names(path.parent) == ["file"])
    }
  }
}

private struct Mistake: Error {}

/// A file with the content `old`, alone in its directory.
private func withOldFile(
  _ body: (_ path: FilePath, _ loop: EventLoop) async throws -> Void
) async throws {
  try await withDirectory { directory, loop in
    let path = directory.appending("file")
    RawFile.make(path, "old")
    try await body(path, loop)
  }
}
