import TestSupport
import Testing
import UV

@Suite(.timeLimit(.minutes(1))) struct FilePathTests {
  @Test(
    arguments: [
      ("/a/b", "b", "/a"), ("/a/b/", "b", "/a"), ("/a", "a", "/"), ("a", "a", "."),
      ("a/b", "b", "a"), ("a//b", "b", "a"), ("/", "", "/"), ("//", "", "/"), ("", "", "."),
      ("//a", "a", "/"), (".", ".", "."), ("..", "..", "."), ("a/..", "..", "a"), ("a/", "a", "."),
    ] as [(FilePath, FilePath, FilePath)])
  func nameAndParentAreThoseOfTheSystem(_ path: FilePath, _ name: FilePath, _ parent: FilePath) {
    #expect(path.name == name)
    #expect(path.parent == parent)
  }

  @Test(
    arguments: [
      ("/a", "b", "/a/b"), ("/a/", "b", "/a/b"), ("", "b", "b"), ("/", "b", "/b"),
      ("a", "b/c", "a/b/c"),
    ] as [(FilePath, FilePath, FilePath)])
  func appendingPutsOneSlashBetween(_ path: FilePath, _ name: FilePath, _ whole: FilePath) {
    #expect(path.appending(name) == whole)
    #expect(path.appending(name.string!) == whole)
  }

  @Test func absolutePathsBeginWithASlash() {
    #expect(FilePath("/").isAbsolute)
    #expect(FilePath("/a").isAbsolute)
    #expect(!FilePath("a/").isAbsolute)
    #expect(!FilePath("").isAbsolute)
    #expect(FilePath("").isEmpty)
    #expect(!FilePath("/").isEmpty)
  }

  @Test func bytesThatAreNoTextAreKept() {
    let path = FilePath(bytes: [0x2F, 0x61, 0xFF, 0x2F, 0xC3])
    #expect(Array(path.bytes) == [0x2F, 0x61, 0xFF, 0x2F, 0xC3])
    #expect(path.string == nil)
    #expect(path.description == "/a\u{FFFD}/\u{FFFD}")
    #expect(Array(path.name.bytes) == [0xC3])
    #expect(Array(path.parent.bytes) == [0x2F, 0x61, 0xFF])
    #expect(path != FilePath(path.description))
  }

  @Test func pathsAreEqualIfTheirBytesAre() {
    // The same text in two ways of writing it is two names to the system.
    let composed = FilePath("\u{E9}")
    let decomposed = FilePath("e\u{301}")
    #expect(composed != decomposed)
    #expect(Set([composed, decomposed, FilePath("\u{E9}"[...])]).count == 2)
    #expect(FilePath("a") < FilePath("b"))
    #expect(FilePath("a") < FilePath("a/"))
    #expect(!(FilePath("a") < FilePath("a")))
  }

  /// A cut at the NUL would reach another file.
  @Test(arguments: ["file\0", "\0", "file\0.txt"])
  func aPathWithANULReachesNothing(_ name: String) async throws {
    try await withDirectory { directory, loop in
      let file = directory.appending("file")
      let other = directory.appending("other")
      RawFile.make(file, "kept")
      let path = directory.appending(name)
      await expectError(.invalidArgument) { _ = try await File.open(at: path, loop: loop) }
      await expectError(.invalidArgument) {
        _ = try await FileSystem.readFile(at: path.description, loop: loop)
      }
      await expectError(.invalidArgument) {
        try await FileSystem.writeFile("x", to: path, loop: loop)
      }
      await expectError(.invalidArgument) { try await FileSystem.removeFile(at: path, loop: loop) }
      await expectError(.invalidArgument) { try await FileSystem.removeTree(at: path, loop: loop) }
      await expectError(.invalidArgument) { _ = try await FileSystem.info(at: path, loop: loop) }
      await expectError(.invalidArgument) { _ = try await FileSystem.exists(at: path, loop: loop) }
      await expectError(.invalidArgument) {
        _ = try await FileSystem.rename(path, to: other, loop: loop)
      }
      await expectError(.invalidArgument) {
        _ = try await FileSystem.rename(file, to: path, loop: loop)
      }
      await expectError(.invalidArgument) {
        try await FileSystem.copyFile(from: file, to: path, loop: loop)
      }
      await expectError(.invalidArgument) {
        try await FileSystem.replaceFile(at: path, with: [1], loop: loop)
      }
      await expectError(.invalidArgument) {
        _ = try await FileSystem.watch(path, loop: loop)
      }
      await expectError(.invalidArgument) {
        for try await _ in FileSystem.entries(of: path, loop: loop) {}
      }
      await expectError(.invalidArgument) {
        for try await _ in FileSystem.walk(path, loop: loop) {}
      }
      await expectError(.invalidArgument) {
        try await FileSystem.withTemporaryFile(in: path, loop: loop) { _ in }
      }
      #expect(RawFile.names(directory) == ["file"])
      #expect(RawFile.content(file) == Array("kept".utf8))
    }
  }

  @Test func permissionsPrintAsLsShowsThem() {
    #expect("\(FilePermissions(0o640))" == "rw-r-----")
    #expect("\(FilePermissions(0o777))" == "rwxrwxrwx")
    #expect("\(FilePermissions(0))" == "---------")
  }

  @Test func timesCarryOverWhatMakesSeconds() {
    #expect(
      FileTime(seconds: 1, nanoseconds: 1_500_000_000)
        == FileTime(seconds: 2, nanoseconds: 500_000_000))
    #expect(FileTime(seconds: 1, nanoseconds: -1) == FileTime(seconds: 0, nanoseconds: 999_999_999))
    #expect(FileTime(seconds: 1) < FileTime(seconds: 1, nanoseconds: 1))
    #expect(FileTime(seconds: 1_700_000_000) < .now)
  }
}
