import Glibc
import TestSupport
import Testing
import UV

@Suite(.timeLimit(.minutes(1))) struct DirectoryTests {
  @Test(arguments: Place.allCases, [0, 1, 63, 64, 65, 1_000])
  func everyEntryIsListedOnce(_ place: Place, _ count: Int) async throws {
    try await withDirectory { directory, loop in
      let expected = (0..<count).map { FilePath("file\($0)") }
      for name in expected { RawFile.make(directory.appending(name)) }
      try await place.run(loop) {
        var names: [FilePath] = []
        let entries = FileSystem.entries(of: directory, loop: loop)
        for try await entry in entries {
          #expect(entry.path == directory.appending(entry.name))
          names.append(entry.name)
        }
        #expect(names.sorted() == expected.sorted())
        // Each iteration is one of its own, and its end stays the end.
        let again = entries.makeAsyncIterator()
        for _ in 0..<count { #expect(try await again.next() != nil) }
        for _ in 0..<3 { #expect(try await again.next() == nil) }
      }
    }
  }

  @Test func entriesSayWhatTheyAre() async throws {
    try await withDirectory { directory, loop in
      makeTree(directory)
      RawFile.makeFIFO(directory.appending("fifo"))
      var kinds: [FilePath: FileKind] = [:]
      for try await entry in FileSystem.entries(of: directory, loop: loop) {
        kinds[entry.name] = entry.kind
      }
      guard kinds.values.allSatisfy({ $0 != .unknown }) else { return }
      #expect(
        kinds == [
          "a": .directory, "b": .directory, "file": .regular, "up": .symbolicLink, "fifo": .fifo,
        ])
    }
  }

  @Test func whatIsNoDirectoryThrowsInTheIteration() async throws {
    try await withDirectory { (directory, loop) async throws in
      let file = directory.appending("file")
      RawFile.make(file)
      await expectError(.notDirectory, on: file) {
        for try await _ in FileSystem.entries(of: file, loop: loop) {}
      }
      await expectError(.noSuchFile) {
        for try await _ in FileSystem.walk(directory.appending("missing"), loop: loop) {}
      }
      let iterator = FileSystem.entries(of: file, loop: loop).makeAsyncIterator()
      await expectError(.notDirectory) { _ = try await iterator.next() }
      #expect(try await iterator.next() == nil)
    }
  }

  /// Full, in part, not at all.
  @Test func scansThatStopAnywhereLeaveNothing() async throws {
    try await withDirectory { directory, loop in
      for number in 0..<150 { RawFile.make(directory.appending("\(number)")) }
      for round in 0..<400 {
        var left = round % 10 == 0 ? .max : round % 160
        for try await _ in FileSystem.entries(of: directory, loop: loop) {
          left -= 1
          if left <= 0 { break }
        }
        _ = FileSystem.entries(of: directory, loop: loop).makeAsyncIterator()
      }
    }
  }

  @Test func scansThatAreCancelledAnywhereLeaveNothing() async throws {
    try await withDirectory { directory, loop in
      for number in 0..<200 { RawFile.make(directory.appending("\(number)")) }
      RawFile.makeDirectory(directory.appending("inner"))
      var numbers = SeededNumbers(seed: 3)
      for _ in 0..<1_000 {
        let scan = Task {
          var count = 0
          for try await _ in FileSystem.walk(directory, loop: loop) { count += 1 }
          return count
        }
        for _ in 0..<Int.random(in: 0..<20, using: &numbers) { await Task.yield() }
        scan.cancel()
        do {
          let count = try await scan.value
          #expect(count == 201)
        } catch is CancellationError {}
      }
    }
  }

  @Test func aLoopThatShutsDownEndsScans() async throws {
    try await withDirectory { directory, _ in
      for number in 0..<200 { RawFile.make(directory.appending("\(number)")) }
      for round in 0..<30 {
        let loop = try EventLoop()
        // Held until after the loop, with an open directory.
        let held = FileSystem.entries(of: directory, loop: loop).makeAsyncIterator()
        _ = try await held.next()
        let scan = Task {
          while true { for try await _ in FileSystem.entries(of: directory, loop: loop) {} }
        }
        for _ in 0..<round { await Task.yield() }
        await loop.shutdown()
        await #expect(throws: EventLoopClosed.self) { try await scan.value }
        // What was read ahead is there.
        do { while try await held.next() != nil {} } catch is EventLoopClosed {}
      }
    }
  }

  // MARK: Trees

  @Test func aWalkVisitsEverythingAndFollowsNoLink() async throws {
    try await withDirectory { directory, loop in
      makeTree(directory)
      var seen: [FilePath] = []
      for try await entry in FileSystem.walk(directory, loop: loop) {
        // A directory comes before what is in it.
        #expect(entry.path.parent == directory || seen.contains(entry.path.parent))
        #expect(entry.kind != .unknown)
        seen.append(entry.path)
      }
      let expected = ["a", "a/x", "a/x/deep", "a/back", "b", "file", "up"].map {
        directory.appending($0)
      }
      #expect(seen.sorted() == expected.sorted())
    }
  }

  @Test func aWalkEntersOnlyTheDirectoriesThatAreWanted() async throws {
    try await withDirectory { directory, loop in
      makeTree(directory)
      var seen: [FilePath] = []
      for try await entry in FileSystem.walk(directory, loop: loop, entering: { $0.name != "x" }) {
        seen.append(entry.path)
      }
      let expected = ["a", "a/x", "a/back", "b", "file", "up"].map { directory.appending($0) }
      #expect(seen.sorted() == expected.sorted())
    }
  }

  @Test func aWalkLeavesOutWhatIsRemovedMeanwhile() async throws {
    try await withDirectory { directory, loop in
      for number in 0..<50 {
        let inner = directory.appending("\(number)")
        RawFile.makeDirectory(inner)
        RawFile.make(inner.appending("file"))
      }
      var seen = 0
      for try await entry in FileSystem.walk(directory, loop: loop) {
        seen += 1
        if entry.kind == .directory {
          try await FileSystem.removeTree(at: entry.path, loop: loop)
        }
      }
      #expect(seen >= 50)
      #expect(RawFile.names(directory) == [])
    }
  }

  @Test func removingATreeKeepsWhatItsLinksLeadTo() async throws {
    try await withDirectory { directory, loop in
      let outside = directory.appending("outside")
      RawFile.makeDirectory(outside)
      RawFile.make(outside.appending("kept"), "kept")
      let tree = directory.appending("tree")
      RawFile.makeDirectory(tree)
      makeTree(tree)
      RawFile.makeLink(tree.appending("a/out"), to: outside)
      RawFile.makeLink(tree.appending("a/kept"), to: outside.appending("kept"))
      try await FileSystem.removeTree(at: tree, loop: loop)
      #expect(RawFile.names(directory) == ["outside"])
      // The same for the root, however it is written.
      let link = directory.appending("link")
      RawFile.makeLink(link, to: outside)
      try await FileSystem.removeTree(at: link, loop: loop)
      #expect(RawFile.names(directory) == ["outside"])
      RawFile.makeLink(link, to: outside)
      try? await FileSystem.removeTree(at: "\(link)/", loop: loop)
      #expect(RawFile.names(outside) == ["kept"])
      RawFile.make(directory.appending("file"))
      try await FileSystem.removeTree(at: directory.appending("file"), loop: loop)
      try await FileSystem.removeTree(at: "\(outside)//", loop: loop)
      await expectError(.noSuchFile) { try await FileSystem.removeTree(at: tree, loop: loop) }
    }
  }

  @Test func removingATreeTwiceAtOnceRemovesIt() async throws {
    try await withDirectory { directory, loop in
      for _ in 0..<20 {
        let tree = directory.appending("tree")
        RawFile.makeDirectory(tree)
        makeTree(tree)
        try await withThrowingTaskGroup { group in
          for _ in 0..<3 {
            group.addTask {
              // Who comes when all is gone is told so.
              do { try await FileSystem.removeTree(at: tree, loop: loop) } catch let error
                as IOError
                where error.code == .noSuchFile
              {}
            }
          }
          try await group.waitForAll()
        }
        #expect(RawFile.names(directory) == [])
      }
    }
  }

  @Test func directoriesAreMadeWithThoseOnTheWay() async throws {
    try await withDirectory { directory, loop in
      let deep = directory.appending("a/b/c")
      await expectError(.noSuchFile, on: deep) {
        try await FileSystem.createDirectory(at: deep, loop: loop)
      }
      try await FileSystem.createDirectory(
        at: deep, permissions: 0o700, withIntermediates: true, loop: loop)
      #expect(try await FileSystem.info(at: deep, loop: loop).permissions == 0o700)
      try await FileSystem.createDirectory(at: deep, withIntermediates: true, loop: loop)
      await expectError(.alreadyExists, on: deep) {
        try await FileSystem.createDirectory(at: deep, loop: loop)
      }
      let file = deep.appending("file")
      RawFile.make(file)
      await expectError(.alreadyExists, on: file) {
        try await FileSystem.createDirectory(at: file, withIntermediates: true, loop: loop)
      }
      await expectError(.notDirectory) {
        try await FileSystem.createDirectory(
          at: file.appending("below/more"), withIntermediates: true, loop: loop)
      }
      await expectError(.noSuchFile) {
        try await FileSystem.createDirectory(at: "", withIntermediates: true, loop: loop)
      }
      // Many at once want the same.
      try await withThrowingTaskGroup { group in
        for number in 0..<50 {
          group.addTask {
            try await FileSystem.createDirectory(
              at: directory.appending("m/n/o/p/\(number % 5)/"), withIntermediates: true,
              loop: loop)
          }
        }
        try await group.waitForAll()
      }
      #expect(RawFile.names(directory.appending("m/n/o/p")).count == 5)
    }
  }

  // MARK: Temporary

  @Test func temporaryThingsAreGoneOnEveryWayOut() async throws {
    try await withDirectory { directory, loop in
      let text = try await FileSystem.withTemporaryDirectory(in: directory, loop: loop) {
        (path) async throws in
        #expect(try await FileSystem.info(at: path, loop: loop).permissions == 0o700)
        makeTree(path)
        return "value"
      }
      #expect(text == "value")
      try await FileSystem.withTemporaryFile(in: directory, loop: loop) { file in
        try await file.write("content")
        #expect(try await file.readAll() == Array("content".utf8))
        #expect(try await file.info().permissions == 0o600)
        #expect(RawFile.names(directory) == [file.path.name])
      }
      #expect(RawFile.names(directory) == [])
      await #expect(throws: Mistake.self) {
        try await FileSystem.withTemporaryDirectory(in: directory, loop: loop) { path in
          makeTree(path)
          throw Mistake()
        }
      }
      await #expect(throws: Mistake.self) {
        try await FileSystem.withTemporaryFile(in: directory, loop: loop) { _ in throw Mistake() }
      }
      #expect(RawFile.names(directory) == [])
      await expectError(.noSuchFile) {
        try await FileSystem.withTemporaryFile(in: directory.appending("no"), loop: loop) { _ in }
      }
    }
  }

  @Test func temporaryThingsMayBeTakenAway() async throws {
    try await withDirectory { directory, loop in
      let kept = directory.appending("kept")
      try await FileSystem.withTemporaryDirectory(in: directory, loop: loop) { path in
        try await FileSystem.rename(path, to: kept, loop: loop)
      }
      try await FileSystem.withTemporaryFile(in: directory, loop: loop) { file in
        try await FileSystem.rename(file.path, to: kept.appending("file"), loop: loop)
      }
      #expect(RawFile.names(directory) == ["kept"])
      #expect(RawFile.names(kept) == ["file"])
    }
  }

  @Test func temporaryThingsOfCancelledTasksAreGone() async throws {
    try await withDirectory { directory, loop in
      var numbers = SeededNumbers(seed: 11)
      for _ in 0..<500 {
        let task = Task {
          try await FileSystem.withTemporaryDirectory(in: directory, loop: loop) { path in
            try await FileSystem.withTemporaryFile(in: path, loop: loop) { file in
              try await file.write("x")
              try await FileSystem.createDirectory(at: path.appending("inner"), loop: loop)
            }
          }
        }
        for _ in 0..<Int.random(in: 0..<30, using: &numbers) { await Task.yield() }
        task.cancel()
        do { try await task.value } catch is CancellationError {}
      }
      await expectNothingLeft(on: loop)
      #expect(RawFile.names(directory) == [])
    }
  }

  @Test func temporaryThingsGoWhereTheEnvironmentSays() async throws {
    await #expect(processExitsWith: .success) {
      try await withDirectory { directory, loop in
        setenv("TMPDIR", directory.string!, 1)
        try await FileSystem.withTemporaryFile(loop: loop) {
          precondition($0.path.parent == directory)
        }
        unsetenv("TMPDIR")
        try await FileSystem.withTemporaryDirectory(loop: loop) {
          precondition($0.parent == "/tmp")
        }
      }
    }
  }
}

private struct Mistake: Error {}

/// `a/x/deep`, `a/back` that leads to the root, `b`, `file`, and `up` that leads out.
private func makeTree(_ root: FilePath) {
  RawFile.makeDirectory(root.appending("a"))
  RawFile.makeDirectory(root.appending("a/x"))
  RawFile.make(root.appending("a/x/deep"))
  RawFile.makeLink(root.appending("a/back"), to: root)
  RawFile.makeDirectory(root.appending("b"))
  RawFile.make(root.appending("file"), "file")
  RawFile.makeLink(root.appending("up"), to: "..")
}
