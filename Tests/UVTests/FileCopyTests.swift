import Glibc
import TestSupport
import Testing
import UV

@Suite(.timeLimit(.minutes(1))) struct FileCopyTests {
  @Test(arguments: [0, 1, 131_072, 131_073, 16_777_216, 33_554_433])
  func aCopyHasEveryByteAndThePermissions(_ count: Int) async throws {
    try await withPaths { source, copy, loop in
      RawFile.make(source, Pattern.bytes(count))
      RawFile.setPermissions(source, 0o641)
      let progress = Collected<FileCopyProgress>()
      try await FileSystem.copyFile(from: source, to: copy, loop: loop) { progress.append($0) }
      let content = RawFile.content(copy)!
      #expect(content.count == count && Pattern.matches(content, at: 0))
      let info = try await FileSystem.info(at: copy, loop: loop)
      #expect(info.permissions == 0o641)
      // A copy is younger than what it was made of, unless told otherwise.
      let old = try await FileSystem.info(at: source, loop: loop)
      #expect(info.modified >= old.modified)
      let steps = progress.values
      #expect(steps.last?.copied == count)
      #expect(steps.allSatisfy { $0.total == count })
      #expect(zip(steps, steps.dropFirst()).allSatisfy { $0.copied <= $1.copied })
    }
  }

  @Test func timesAreKeptIfAskedFor() async throws {
    try await withPaths { source, copy, loop in
      RawFile.make(source, "content")
      let accessed = FileTime(seconds: 1_000_000_000)
      let modified = FileTime(seconds: 1_000_000_001)
      try await FileSystem.setTimes(of: source, accessed: accessed, modified: modified, loop: loop)
      try await FileSystem.copyFile(from: source, to: copy, keepingTimes: true, loop: loop)
      var info = try await FileSystem.info(at: copy, loop: loop)
      #expect(info.modified == modified)
      #expect(info.accessed == accessed)
      try await FileSystem.copyFile(from: source, to: copy, loop: loop)
      info = try await FileSystem.info(at: copy, loop: loop)
      #expect(info.modified > modified)
    }
  }

  @Test func aFileIsNotCopiedToItself() async throws {
    try await withPaths { source, copy, loop in
      RawFile.make(source, "content")
      RawFile.makeLink(copy, to: source)
      let hard = source.parent.appending("hard")
      try await FileSystem.createLink(at: hard, to: source, loop: loop)
      for other in [source, copy, hard, source.parent.appending("./\(source.name)")] {
        await #expect(throws: SameFile.self) {
          try await FileSystem.copyFile(from: source, to: other, loop: loop)
        }
        await #expect(throws: SameFile.self) {
          try await FileSystem.copyFile(
            from: other, to: source, overwriting: false, loop: loop)
        }
      }
      #expect(RawFile.content(source) == Array("content".utf8))
      #expect(RawFile.names(source.parent).count == 3)
    }
  }

  @Test func anExistingFileIsReplacedOrLeftAlone() async throws {
    try await withPaths { source, copy, loop in
      RawFile.make(source, "new")
      RawFile.make(copy, "old and longer")
      await expectError(.alreadyExists, on: copy) {
        try await FileSystem.copyFile(from: source, to: copy, overwriting: false, loop: loop)
      }
      #expect(RawFile.content(copy) == Array("old and longer".utf8))
      try await FileSystem.withFile(at: copy, loop: loop) { old in
        try await FileSystem.copyFile(from: source, to: copy, loop: loop)
        // Who had it open keeps it.
        #expect(try await old.readAll() == Array("old and longer".utf8))
      }
      #expect(RawFile.content(copy) == Array("new".utf8))
      try await FileSystem.removeFile(at: copy, loop: loop)
      try await FileSystem.copyFile(from: source, to: copy, overwriting: false, loop: loop)
      #expect(RawFile.content(copy) == Array("new".utf8))
      #expect(RawFile.names(source.parent).count == 2)
    }
  }

  @Test func ofManyThatMustNotOverwriteOneWins() async throws {
    try await withPaths { source, copy, loop in
      RawFile.make(source, Pattern.bytes(100_000))
      let copied = Tally()
      try await withThrowingTaskGroup { group in
        for _ in 0..<20 {
          group.addTask {
            do {
              try await FileSystem.copyFile(from: source, to: copy, overwriting: false, loop: loop)
              copied.add()
            } catch let error as IOError where error.code == .alreadyExists {}
          }
        }
        try await group.waitForAll()
      }
      #expect(copied.value == 1)
      #expect(RawFile.content(copy) == Pattern.bytes(100_000))
      #expect(RawFile.names(source.parent) == [copy.name, source.name].sorted())
    }
  }

  @Test func directoriesAreNotCopied() async throws {
    try await withPaths { source, copy, loop in
      RawFile.makeDirectory(source)
      await expectError(.isDirectory, on: source) {
        try await FileSystem.copyFile(from: source, to: copy, loop: loop)
      }
      RawFile.make(copy, "kept")
      await expectError(.isDirectory, on: source) {
        try await FileSystem.copyFile(from: copy, to: source, loop: loop)
      }
      await expectError(.noSuchFile) {
        try await FileSystem.copyFile(from: source.appending("no"), to: copy, loop: loop)
      }
      await expectError(.noSuchFile) {
        try await FileSystem.copyFile(from: copy, to: source.appending("no/no"), loop: loop)
      }
      #expect(RawFile.content(copy) == Array("kept".utf8))
      #expect(RawFile.names(source) == [])
    }
  }

  /// 3 GiB that need no room, with some bytes in the middle, at the end, or nowhere.
  @Test(arguments: [nil, 0, 2_500_000_000, (3 << 30) - 5_000])
  func aSparseFileStaysSparse(_ offset: Int?) async throws {
    try await withPaths { source, copy, loop in
      let size = 3 << 30
      let mark = Pattern.bytes(5_000)
      RawFile.makeSparse(source, size: size, offset == nil ? [] : mark, at: offset ?? 0)
      let steps = Collected<FileCopyProgress>()
      try await FileSystem.copyFile(from: source, to: copy, loop: loop) { steps.append($0) }
      let info = try await FileSystem.info(at: copy, loop: loop)
      #expect(info.size == size)
      #expect(info.allocatedSize < 1 << 20)
      #expect(steps.values.last?.copied == size && steps.values.last?.total == size)
      guard let offset else { return }
      try await FileSystem.withFile(at: copy, loop: loop) { (file) async throws in
        #expect(try await file.read(upTo: 5_000, at: offset) == mark)
        if offset > 0 {
          #expect(try await file.read(upTo: 10, at: offset - 10) == Array(repeating: 0, count: 10))
        }
      }
    }
  }

  @Test func aDeviceIsWrittenTo() async throws {
    try await withPaths { source, _, loop in
      RawFile.make(source, Pattern.bytes(300_000))
      let steps = Collected<FileCopyProgress>()
      try await FileSystem.copyFile(from: source, to: "/dev/null", loop: loop) { steps.append($0) }
      #expect(steps.values.last?.copied == 300_000)
      await expectError(.noSpace) {
        try await FileSystem.copyFile(from: source, to: "/dev/full", loop: loop)
      }
      await expectError(.alreadyExists) {
        try await FileSystem.copyFile(
          from: source, to: "/dev/null", overwriting: false, loop: loop)
      }
      #expect(try await FileSystem.info(at: "/dev/null", loop: loop).kind == .characterDevice)
      // What has holes, too.
      RawFile.makeSparse(source, size: 1 << 20, [1, 2, 3], at: 500_000)
      try await FileSystem.copyFile(from: source, to: "/dev/null", loop: loop)
    }
  }

  @Test func aCopyDoesNotLendTheRightsOfItsOwner() async throws {
    try await withPaths { source, copy, loop in
      RawFile.make(source, "program")
      try await FileSystem.setPermissions(of: source, to: 0o6755, loop: loop)
      try await FileSystem.copyFile(from: source, to: copy, loop: loop)
      #expect(try await FileSystem.info(at: copy, loop: loop).permissions == 0o755)
    }
  }

  @Test func aLinkThatIsTheDestinationIsFollowed() async throws {
    try await withPaths { source, copy, loop in
      let link = source.parent.appending("link")
      RawFile.make(source, "new")
      RawFile.make(copy, "old")
      RawFile.makeLink(link, to: copy.name)
      try await FileSystem.copyFile(from: source, to: link, loop: loop)
      #expect(RawFile.content(copy) == Array("new".utf8))
      #expect(try await FileSystem.readLink(at: link, loop: loop) == copy.name)
    }
  }

  @Test func aCancelledCopyIsRemoved() async throws {
    try await withPaths { source, copy, loop in
      RawFile.makeSparse(source, size: 40 << 20, Pattern.bytes(100_000))
      var numbers = SeededNumbers(seed: 5)
      var done = 0
      let reports = Collected<String>()
      try await withReports(about: source.parent, to: reports) {
        for round in 0..<300 {
          let copying = Task {
            try await FileSystem.copyFile(
              from: source, to: copy, overwriting: round % 2 == 0, loop: loop)
          }
          for _ in 0..<Int.random(in: 0..<60, using: &numbers) { await Task.yield() }
          copying.cancel()
          do {
            try await copying.value
            done += 1
            #expect(RawFile.exists(copy))
          } catch is CancellationError {
            await expectNothingLeft(on: loop)
            #expect(RawFile.names(source.parent) == [source.name])
          }
          await expectNothingLeft(on: loop)
          let names = RawFile.names(source.parent)
          #expect(names == [source.name] || names == [copy.name, source.name].sorted(), "\(names)")
          if RawFile.exists(copy) { try await FileSystem.removeFile(at: copy, loop: loop) }
        }
      }
      #expect(reports.values == [])
    }
  }

  @Test func aCopyThatIsCancelledInTheMiddleLeavesTheOldFile() async throws {
    try await withPaths { source, copy, loop in
      RawFile.make(source, Pattern.bytes(60 << 20))
      RawFile.make(copy, "old")
      let copying = Task {
        try await FileSystem.copyFile(from: source, to: copy, loop: loop) { _ in
          withUnsafeCurrentTask { $0?.cancel() }
        }
      }
      await #expect(throws: CancellationError.self) { try await copying.value }
      await expectNothingLeft(on: loop)
      let isOld = RawFile.content(copy) == Array("old".utf8)
      #expect(isOld)  // Without what it has instead.
      #expect(RawFile.names(source.parent).count == 2)
    }
  }

  @Test func aCopyThatFindsNoRoomIsRemoved() async throws {
    await #expect(processExitsWith: .success) {
      try await withPaths { source, copy, loop in
        RawFile.make(source, Pattern.bytes(2_000_000))
        RawFile.make(copy, "old")
        var limit = rlimit(rlim_cur: 1_000_000, rlim_max: 1_000_000)
        precondition(setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit) == 0)
        await expectError(.fileTooLarge) {
          try await FileSystem.copyFile(from: source, to: copy, loop: loop)
        }
        precondition(RawFile.content(copy) == Array("old".utf8))
        precondition(RawFile.names(source.parent).count == 2)
      }
    }
  }
}

/// A directory with room for a `source` and a `copy`.
private func withPaths(
  _ body: (_ source: FilePath, _ copy: FilePath, _ loop: EventLoop) async throws -> Void
) async throws {
  try await withDirectory { directory, loop in
    try await body(directory.appending("source"), directory.appending("copy"), loop)
  }
}
