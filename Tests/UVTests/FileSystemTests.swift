import Glibc
import TestSupport
import Testing
import UV

@Suite(.timeLimit(.minutes(1))) struct FileSystemTests {
  @Test func infoSaysWhatTheSystemKnows() async throws {
    try await withDirectory { directory, loop in
      let path = directory.appending("file")
      RawFile.make(path, Pattern.bytes(1_234))
      RawFile.setPermissions(path, 0o640)
      var expected = stat()
      #expect(stat(path.string!, &expected) == 0)
      let info = try await FileSystem.info(at: path, loop: loop)
      #expect(info.kind == .regular)
      #expect(info.size == 1_234)
      #expect(info.permissions == 0o640)
      #expect(info.userID == geteuid())
      #expect(info.groupID == expected.st_gid)
      #expect(info.links == 1)
      #expect(info.inode == expected.st_ino)
      #expect(info.device == expected.st_dev)
      #expect(info.allocatedSize == expected.st_blocks * 512)
      #expect(info.modified <= .now && info.statusChanged >= info.modified)
      try await FileSystem.withFile(at: path, loop: loop) { file in
        let other = try await file.info()
        #expect(other.isSameFile(as: info))
        #expect(other.size == info.size)
      }
      #expect(try await !FileSystem.info(at: directory, loop: loop).isSameFile(as: info))
    }
  }

  @Test func everyKindOfFileIsKnown() async throws {
    try await withDirectory { (directory, loop) async throws in
      func kind(_ path: FilePath) async throws -> FileKind {
        try await FileSystem.info(at: path, followingLinks: false, loop: loop).kind
      }
      RawFile.makeFIFO(directory.appending("fifo"))
      RawFile.makeLink(directory.appending("link"), to: "nowhere")
      #expect(try await kind(directory) == .directory)
      #expect(try await kind(directory.appending("fifo")) == .fifo)
      #expect(try await kind(directory.appending("link")) == .symbolicLink)
      #expect(try await kind("/dev/null") == .characterDevice)
      #expect(try await FileSystem.info(at: "/dev/null", loop: loop).representedDevice != 0)
    }
  }

  @Test func linksAreFollowedOrNot() async throws {
    try await withDirectory { directory, loop in
      let (file, link) = (directory.appending("file"), directory.appending("link"))
      RawFile.make(file, "content")
      try await FileSystem.createSymbolicLink(at: link, to: "file", loop: loop)
      #expect(try await FileSystem.readLink(at: link, loop: loop) == "file")
      #expect(try await FileSystem.info(at: link, loop: loop).kind == .regular)
      #expect(
        try await FileSystem.info(at: link, followingLinks: false, loop: loop).kind
          == .symbolicLink)
      let canonical = try await FileSystem.canonicalPath(of: link, loop: loop)
      #expect(canonical.name == "file" && canonical.isAbsolute)
      #expect(
        try await FileSystem.canonicalPath(
          of: directory.appending("./../\(directory.name)//link"), loop: loop) == canonical)
      try await FileSystem.removeFile(at: file, loop: loop)
      #expect(try await !FileSystem.exists(at: link, loop: loop))
      #expect(try await FileSystem.exists(at: link, followingLinks: false, loop: loop))
      await expectError(.noSuchFile, on: link) {
        _ = try await FileSystem.info(at: link, loop: loop)
      }
      await expectError(.invalidArgument, on: directory) {
        _ = try await FileSystem.readLink(at: directory, loop: loop)
      }
    }
  }

  @Test func hardLinksAreOneFile() async throws {
    try await withDirectory { directory, loop in
      let (one, other) = (directory.appending("one"), directory.appending("other"))
      RawFile.make(one, "content")
      try await FileSystem.createLink(at: other, to: one, loop: loop)
      let info = try await FileSystem.info(at: one, loop: loop)
      #expect(info.links == 2)
      #expect(try await FileSystem.info(at: other, loop: loop).isSameFile(as: info))
      let error = await expectError(.alreadyExists, on: one) {
        try await FileSystem.createLink(at: other, to: one, loop: loop)
      }
      #expect(error?.subject == "\(one) to \(other)")
      try await FileSystem.removeFile(at: one, loop: loop)
      #expect(RawFile.content(other) == Array("content".utf8))
    }
  }

  @Test func existenceIsAskedFor() async throws {
    try await withDirectory { (directory, loop) async throws in
      let file = directory.appending("file")
      RawFile.make(file)
      #expect(try await FileSystem.exists(at: file, loop: loop))
      #expect(try await FileSystem.exists(at: directory, loop: loop))
      #expect(try await !FileSystem.exists(at: directory.appending("other"), loop: loop))
      #expect(try await !FileSystem.exists(at: file.appending("below"), loop: loop))
      #expect(try await !FileSystem.exists(at: "", loop: loop))
      await expectError(.nameTooLong) {
        let name = String(repeating: "x", count: 300)
        _ = try await FileSystem.exists(at: directory.appending(name), loop: loop)
      }
    }
  }

  @Test func accessIsAskedFor() async throws {
    try await withDirectory { (directory, loop) async throws in
      let file = directory.appending("file")
      RawFile.make(file)
      #expect(try await FileSystem.mayAccess(file, for: [.reading, .writing], loop: loop))
      // Not even root runs what nobody may run.
      #expect(try await !FileSystem.mayAccess(file, for: .executing, loop: loop))
      RawFile.setPermissions(file, 0o700)
      #expect(try await FileSystem.mayAccess(file, for: .executing, loop: loop))
      await expectError(.noSuchFile) {
        _ = try await FileSystem.mayAccess(
          directory.appending("missing"), for: .reading, loop: loop)
      }
    }
  }

  @Test func renamingReplacesWhatIsThere() async throws {
    try await withDirectory { directory, loop in
      let (one, other) = (directory.appending("one"), directory.appending("other"))
      RawFile.make(one, "one")
      RawFile.make(other, "other")
      try await FileSystem.rename(one, to: other, loop: loop)
      #expect(RawFile.names(directory) == ["other"])
      #expect(RawFile.content(other) == Array("one".utf8))
      let error = await expectError(.noSuchFile) {
        try await FileSystem.rename(one, to: other, loop: loop)
      }
      #expect(
        error?.description == "rename \(one) to \(other): no such file or directory (ENOENT)")
      let inner = directory.appending("inner")
      RawFile.makeDirectory(inner)
      await expectError(.isDirectory) { try await FileSystem.rename(other, to: inner, loop: loop) }
      await expectError(.notDirectory) { try await FileSystem.rename(inner, to: other, loop: loop) }
    }
  }

  @Test func removingTakesTheRightThing() async throws {
    try await withDirectory { directory, loop in
      let inner = directory.appending("inner")
      RawFile.makeDirectory(inner)
      RawFile.make(inner.appending("file"))
      await expectError(.isDirectory, on: inner) {
        try await FileSystem.removeFile(at: inner, loop: loop)
      }
      await expectError(.directoryNotEmpty, on: inner) {
        try await FileSystem.removeDirectory(at: inner, loop: loop)
      }
      await expectError(.notDirectory) {
        try await FileSystem.removeDirectory(at: inner.appending("file"), loop: loop)
      }
      await expectError(.noSuchFile) {
        try await FileSystem.removeFile(at: inner.appending("missing"), loop: loop)
      }
      try await FileSystem.removeFile(at: inner.appending("file"), loop: loop)
      try await FileSystem.removeDirectory(at: inner, loop: loop)
      #expect(RawFile.names(directory) == [])
    }
  }

  @Test func aRemovedFileThatIsOpenStays() async throws {
    try await withDirectory { directory, loop in
      let path = directory.appending("file")
      RawFile.make(path, "content")
      try await FileSystem.withFile(at: path, loop: loop) { file in
        try await FileSystem.removeFile(at: path, loop: loop)
        #expect(try await file.readAll() == Array("content".utf8))
        #expect(try await file.info().links == 0)
      }
    }
  }

  @Test func permissionsAreSet() async throws {
    try await withDirectory { directory, loop in
      let (file, link) = (directory.appending("file"), directory.appending("link"))
      RawFile.make(file)
      RawFile.makeLink(link, to: file)
      try await FileSystem.setPermissions(of: link, to: 0o604, loop: loop)
      #expect(try await FileSystem.info(at: file, loop: loop).permissions == 0o604)
      try await FileSystem.withFile(at: file, loop: loop) { open in
        try await open.setPermissions(0o4711)
        #expect(try await open.info().permissions == 0o4711)
        #expect(try await open.info().permissions.rawValue == 0o4711)
      }
    }
  }

  @Test func timesAreSetToTheMicrosecond() async throws {
    try await withDirectory { directory, loop in
      let (file, link) = (directory.appending("file"), directory.appending("link"))
      RawFile.make(file)
      RawFile.makeLink(link, to: file)
      let accessed = FileTime(seconds: 1_700_000_001, nanoseconds: 123_456_000)
      let modified = FileTime(seconds: 999_999_999, nanoseconds: 999_999_000)
      let other = FileTime(seconds: 12, nanoseconds: 0)
      func isClose(_ time: FileTime, _ expected: FileTime) -> Bool {
        time.seconds == expected.seconds
          && abs(time.nanoseconds - expected.nanoseconds) <= 1_000
      }
      try await FileSystem.setTimes(
        of: link, accessed: accessed, modified: modified, loop: loop)
      let info = try await FileSystem.info(at: file, loop: loop)
      #expect(isClose(info.accessed, accessed), "\(info.accessed)")
      #expect(isClose(info.modified, modified), "\(info.modified)")
      try await FileSystem.setTimes(
        of: link, accessed: other, modified: other, followingLinks: false, loop: loop)
      #expect(try await FileSystem.info(at: file, loop: loop).modified == info.modified)
      #expect(
        try await FileSystem.info(at: link, followingLinks: false, loop: loop).modified == other)
      try await FileSystem.withFile(at: file, loop: loop) { open in
        try await open.setTimes(accessed: other, modified: other)
        #expect(try await open.info().modified == other)
        #expect(try await open.info().accessed == other)
      }
    }
  }

  @Test func ownersAreSet() async throws {
    // Only root may.
    guard geteuid() == 0 else { return }
    try await withDirectory { directory, loop in
      let (file, link) = (directory.appending("file"), directory.appending("link"))
      RawFile.make(file)
      RawFile.makeLink(link, to: file)
      func owner(_ path: FilePath) async throws -> [UInt32] {
        let info = try await FileSystem.info(at: path, followingLinks: false, loop: loop)
        return [info.userID, info.groupID]
      }
      try await FileSystem.setOwner(of: link, userID: 12, groupID: 34, loop: loop)
      #expect(try await owner(file) == [12, 34])
      try await FileSystem.setOwner(of: link, userID: 56, followingLinks: false, loop: loop)
      #expect(try await owner(link)[0] == 56)
      #expect(try await owner(file) == [12, 34])
      try await FileSystem.withFile(at: file, loop: loop) { try await $0.setOwner(groupID: 78) }
      #expect(try await owner(file) == [12, 78])
      try await FileSystem.setOwner(of: file, loop: loop)
      #expect(try await owner(file) == [12, 78])
    }
  }

  @Test func theRoomOfAFileSystemIsKnown() async throws {
    try await withLoop { loop in
      let space = try await FileSystem.space(at: "/tmp", loop: loop)
      #expect(space.total > 0)
      #expect(space.free <= space.total && space.available <= space.free)
      #expect(space.freeFiles <= space.files)
      await expectError(.noSuchFile) {
        _ = try await FileSystem.space(at: "/tmp/no such", loop: loop)
      }
    }
  }

  /// The bytes of a name need not be text.
  @Test func aNameThatIsNoTextIsMadeListedOpenedAndRemoved() async throws {
    try await withDirectory { directory, loop in
      let name = FilePath(bytes: [0x61, 0xFF, 0xFE, 0x80])
      let path = directory.appending(name)
      try await FileSystem.writeFile("content", to: path, loop: loop)
      #expect(RawFile.names(directory) == [name])
      var entries: [DirectoryEntry] = []
      for try await entry in FileSystem.entries(of: directory, loop: loop) {
        entries.append(entry)
      }
      let listed = try #require(entries.first)
      #expect(listed.name == name && listed.path == path)
      #expect(try await FileSystem.readFile(at: listed.path, loop: loop) == Array("content".utf8))
      let renamed = directory.appending(FilePath(bytes: [0xFF]))
      try await FileSystem.rename(listed.path, to: renamed, loop: loop)
      #expect(try await FileSystem.canonicalPath(of: renamed, loop: loop).name == renamed.name)
      try await FileSystem.replaceFile(at: renamed, with: [1, 2], loop: loop)
      #expect(RawFile.names(directory) == [renamed.name])
      try await FileSystem.removeFile(at: renamed, loop: loop)
      #expect(RawFile.names(directory) == [])
      await expectError(.noSuchFile, on: renamed) {
        try await FileSystem.removeFile(at: renamed, loop: loop)
      }
    }
  }

  @Test func everyCallKeepsToItsPaths() async throws {
    try await withDirectory { directory, loop in
      try await withThrowingTaskGroup { group in
        for number in 0..<300 {
          group.addTask {
            let path = directory.appending("file\(number)")
            try await FileSystem.writeFile("\(number)", to: path, loop: loop)
            let link = directory.appending("link\(number)")
            try await FileSystem.createSymbolicLink(at: link, to: path, loop: loop)
            #expect(
              try await FileSystem.readFile(at: link, loop: loop) == Array("\(number)".utf8))
            #expect(try await FileSystem.readLink(at: link, loop: loop) == path)
          }
        }
        try await group.waitForAll()
      }
      #expect(RawFile.names(directory).count == 600)
    }
  }
}
