import Foundation
import TestSupport
import Testing
import UV

/// The example `copy-file`, run as its reader runs it: what it copies, and what it says.
@Suite(.timeLimit(.minutes(1)))
struct CopyFileTests {
  @Test func aCopyHasContentPermissionsAndTimes() async throws {
    try await withCopyPlace { place in
      try await place.write(Pattern.bytes(1_234_567), to: "a")
      try await FileSystem.setPermissions(of: place.of("a"), to: 0o640)
      let time = FileTime(seconds: 981_173_106, nanoseconds: 123_456_000)
      try await FileSystem.setTimes(of: place.of("a"), accessed: time, modified: time)
      try await place.write([1, 2, 3], to: "b")

      let process = try await place.run("a", "b")
      #expect(process.exit == .init(status: 0))
      #expect(process.text().wholeMatch(of: /a -> b, 1\.2 MB in \d+\.\d s\n/) != nil)
      #expect(process.text(.errors) == "")
      #expect(try await place.bytes(of: "b") == Pattern.bytes(1_234_567))
      let info = try await FileSystem.info(at: place.of("b"))
      #expect(info.permissions == 0o640)
      #expect(info.modified.seconds == time.seconds)
      #expect(abs(info.modified.nanoseconds - time.nanoseconds) <= 1_000)
      #expect(place.names == ["a", "b"])
    }
  }

  @Test func severalFilesGoIntoADirectory() async throws {
    try await withCopyPlace { place in
      try await FileSystem.createDirectory(at: place.of("directory"))
      try await place.write([1], to: "a")
      try await place.write([], to: "b")
      let process = try await place.run("a", place.of("b"), "directory/")
      #expect(process.exit == .init(status: 0))
      #expect(
        process.lines().map { $0.prefix(while: { $0 != "," }) } == [
          "a -> directory/a", "\(place.of("b")) -> directory/b",
        ])
      #expect(try await place.bytes(of: "directory/a") == [1])
      #expect(try await place.bytes(of: "directory/b") == [])
    }
  }

  @Test func whatFailsIsReportedAndTheOthersAreCopied() async throws {
    try await withCopyPlace { place in
      for directory in ["directory", "other"] {
        try await FileSystem.createDirectory(at: place.of(directory))
      }
      try await place.write([1], to: "a")
      try await place.write([2], to: "b")
      try await place.write([3], to: "other/b")
      let process = try await place.run("a", "missing", "other", "a", "b", "other/b", "directory")
      #expect(process.exit == .init(status: 1))
      #expect(
        process.lines(.errors) == [
          "copy-file: open missing: no such file or directory (ENOENT)",
          "copy-file: copy other: illegal operation on a directory (EISDIR)",
          "copy-file: copy a to directory/a: another source was to be copied there",
          "copy-file: copy other/b to directory/b: another source was to be copied there",
        ])
      #expect(process.lines().count == 2)
      #expect(try await place.bytes(of: "directory/a") == [1])
      #expect(try await place.bytes(of: "directory/b") == [2])
    }
  }

  @Test func aFileIsNotCopiedToItself() async throws {
    try await withCopyPlace { place in
      try await place.write([1], to: "a")
      try await FileSystem.createSymbolicLink(at: place.of("link"), to: "a")
      for (source, destination, copy) in [
        ("a", "a", "a"), ("a", ".", "./a"), ("a", "link", "link"),
      ] {
        let process = try await place.run(source, destination)
        #expect(process.exit == .init(status: 1))
        let line = "copy-file: copy \(source) to \(copy): they are the same file"
        #expect(process.lines(.errors) == [line])
      }
      #expect(try await place.bytes(of: "a") == [1])
      #expect(place.names == ["a", "link"])
    }
  }

  @Test func aDestinationThatCannotBeIsNamed() async throws {
    try await withCopyPlace { place in
      try await place.write([1], to: "a")
      let process = try await place.run("a", "nowhere/b")
      #expect(process.exit == .init(status: 1))
      let line = "copy-file: replace nowhere/b: no such file or directory (ENOENT)"
      #expect(process.lines(.errors) == [line])
      #expect(process.text() == "" && place.names == ["a"])
    }
  }

  @Test(arguments: [[], ["a"]])
  func withoutADestinationItIsAUsageError(arguments: [String]) async throws {
    try await withCopyPlace { place in
      let process = try await place.run(arguments)
      #expect(process.exit == .init(status: 64))
      #expect(process.text() == "" && process.lines(.errors).count == 1)
      #expect(process.lines(.errors).first?.hasPrefix("copy-file: ") == true)
    }
  }

  @Test func helpSaysHowItIsUsed() async throws {
    try await withCopyPlace { place in
      let process = try await place.run("--help")
      #expect(process.exit == .init(status: 0))
      #expect(process.lines().first == "usage: copy-file SOURCE DESTINATION")
    }
  }

  // MARK: Files that are special

  @Test func aFileOfProcIsCopiedWhateverItsSizeSays() async throws {
    try await withCopyPlace { place in
      let process = try await place.run("/proc/version", "version")
      #expect(process.exit == .init(status: 0))
      let version = try await FileSystem.readFile(at: "/proc/version")
      #expect(try await place.bytes(of: "version") == version && !version.isEmpty)
    }
  }

  @Test func aSparseFileStaysSparse() async throws {
    try await withCopyPlace { place in
      try await FileSystem.withFile(at: place.of("a"), [.writing, .create]) { file in
        try await file.write(Pattern.bytes(10_000), at: 40_000_000)
        try await file.truncate(to: 100_000_000)
      }
      let process = try await place.run("a", "b")
      #expect(process.exit == .init(status: 0))
      let info = try await FileSystem.info(at: place.of("b"))
      #expect(info.size == 100_000_000 && info.allocatedSize < 1_000_000)
      #expect(try await place.bytes(of: "b") == place.bytes(of: "a"))
    }
  }

  @Test func aDeviceGetsAllOfASparseFileAndStaysADevice() async throws {
    try await withCopyPlace { place in
      try await FileSystem.withFile(at: place.of("a"), [.writing, .create]) {
        try await $0.truncate(to: 5_000_000)
      }
      let process = try await place.run("a", "/dev/null")
      #expect(process.exit == .init(status: 0))
      #expect(process.text().hasPrefix("a -> /dev/null, 5.0 MB in "))
      let kind = try await FileSystem.info(at: "/dev/null").kind
      #expect(kind == .characterDevice)
    }
  }

  @Test func whatAFileGainsMeanwhileIsCopiedToo() async throws {
    try await withCopyPlace { place in
      let bytes = Pattern.bytes(1_000_000)
      try await place.write(Array(bytes[..<500_000]), to: "a")
      let fifo = try Fifo(at: place.of("b"))
      let process = try place.start("a", "b")
      defer { process.send(SIGKILL) }
      var copied: [UInt8] = []
      await eventually {
        copied += fifo.read()
        return copied.count > 0
      }
      try await FileSystem.withFile(at: place.of("a"), .appending) {
        try await $0.write(Array(bytes[500_000...]))
      }
      await eventually {
        copied += fifo.read()
        return process.exit != nil
      }
      copied += fifo.read()
      #expect(copied == bytes)
      #expect(process.exit == .init(status: 0))
      #expect(process.text().hasPrefix("a -> b, 1.0 MB in "))
    }
  }

  @Test func aNameMayBeAnyBytesAndDoesNotReachTheTerminalAsTheyAre() async throws {
    try await withCopyPlace { place in
      let directory = FilePath(place.path)
      let name = FilePath(bytes: Array("\u{1B}[2J\n".utf8) + [0xFF])
      try await FileSystem.writeFile("odd", to: directory.appending(name))
      try await FileSystem.createDirectory(at: place.of("directory"))
      let shell = "exec \"$0\" $'\\e[2J\\n\\xFF' $'missing\\a' directory"
      let process = try await place.run([], shell: shell)
      #expect(process.exit == .init(status: 1))
      let printed = "\\u{1B}[2J\\u{A}\u{FFFD}"
      #expect(process.text().hasPrefix("\(printed) -> directory/\(printed), 3 bytes in "))
      #expect(process.lines().count == 1)
      #expect(
        process.lines(.errors) == [
          "copy-file: open missing\\u{7}: no such file or directory (ENOENT)"
        ])
      let copy = directory.appending("directory").appending(name)
      #expect(try await FileSystem.readFile(at: copy) == Array("odd".utf8))
    }
  }

  // MARK: Progress

  @Test(arguments: [20, 40, 80, 200] as [UInt16])
  func aTerminalShowsTheProgressInOneLineThatFits(columns: UInt16) async throws {
    try await withCopyPlace { place in
      let process = try await copySlowly(place, columns: columns) { process in
        process.text().components(separatedBy: "\u{1B}[K").count > 4
      }
      // Line ends are the terminal's. What was drawn is cleared before the last line.
      let parts = process.text().components(separatedBy: "\u{1B}[K")
      #expect(
        parts.last?.wholeMatch(of: /a-rather-long-name -> b, 8\.0 MB in \d+\.\d s\r\n/) != nil)
      #expect(parts.dropLast().last == "\r")
      for part in parts.dropLast(2) {
        #expect(part.first == "\r" && part.count - 1 < columns && !part.contains("\n"), "\(part)")
        guard columns >= 80 else { continue }
        let pattern = /\ra-rather-long-name  \[#*-*\] \d+%  .*B, .*B\/s, \d+:\d\d left/
        #expect(part.wholeMatch(of: pattern) != nil, "\(part)")
      }
    }
  }

  @Test func withoutATerminalThereIsALineAtTheEnd() async throws {
    try await withCopyPlace { place in
      var reads = 0
      let process = try await copySlowly(place, columns: nil) { _ in
        reads += 1
        return reads > 400
      }
      let pattern = /a-rather-long-name -> b, 8\.0 MB in \d+\.\d s\n/
      #expect(process.text().wholeMatch(of: pattern) != nil, "\(process.text())")
    }
  }

  /// Copies 8 MB to a FIFO that is read little by little until `isEnough`.
  private func copySlowly(
    _ place: CopyPlace, columns: UInt16?, until isEnough: (ExampleProcess) -> Bool
  ) async throws -> ExampleProcess {
    try await place.write(Pattern.bytes(8_000_000), to: "a-rather-long-name")
    let fifo = try Fifo(at: place.of("b"))
    let process = try place.start("a-rather-long-name", "b", columns: columns)
    defer { process.send(SIGKILL) }
    await eventually("there is enough progress") {
      _ = fifo.read(upTo: 2_048)
      return isEnough(process)
    }
    await eventually("it ends") {
      _ = fifo.read()
      return process.exit != nil
    }
    #expect(process.exit == .init(status: 0))
    return process
  }
}
