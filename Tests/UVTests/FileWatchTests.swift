import Glibc
import TestSupport
import Testing
import UV

@Suite(.timeLimit(.minutes(1))) struct FileWatchTests {
  @Test func aDirectoryTellsWhatIsMadeChangedAndRemoved() async throws {
    try await withDirectory { directory, loop in
      let changes = try await FileSystem.watch(directory, loop: loop)
      let iterator = changes.makeAsyncIterator()
      let file = directory.appending("file")
      RawFile.make(file)
      #expect(try await next(iterator) == "renamed file")
      RawFile.make(file, "content")
      #expect(try await next(iterator) == "changed file")
      RawFile.setPermissions(file, 0o600)
      #expect(try await next(iterator) == "changed file")
      try await FileSystem.removeFile(at: file, loop: loop)
      try await waitUntil("renamed file", iterator)
    }
  }

  @Test func aFileTellsOfItsChanges() async throws {
    try await withDirectory { directory, loop in
      let file = directory.appending("file")
      RawFile.make(file)
      let iterator = try await FileSystem.watch(file, loop: loop).makeAsyncIterator()
      RawFile.make(directory.appending("other"), "not watched")
      RawFile.make(file, "content")
      let change = try #require(try await iterator.next())
      #expect(change.kind == .changed)
      #expect(change.name == "file")
      try await FileSystem.removeFile(at: file, loop: loop)
      try await waitUntil(kind: .renamed, iterator)
    }
  }

  @Test func aNameThatIsNoTextIsTold() async throws {
    try await withDirectory { directory, loop in
      let iterator = try await FileSystem.watch(directory, loop: loop).makeAsyncIterator()
      let name = FilePath(bytes: [0x61, 0xFF])
      RawFile.make(directory.appending(name))
      #expect(try await iterator.next()?.name == name)
      try await FileSystem.removeFile(at: directory.appending(name), loop: loop)
    }
  }

  @Test func aChangeThatHappensAgainBeforeItWasTakenCountsOnce() async throws {
    try await withDirectory { directory, loop in
      let iterator = try await FileSystem.watch(directory, loop: loop).makeAsyncIterator()
      for _ in 0..<50 { RawFile.make(directory.appending("same"), "x") }
      try await flush(directory, loop)
      var changes: [String] = []
      while let change = try await next(iterator), change != "renamed last" {
        changes.append(change)
      }
      #expect(
        changes == [
          "renamed same", "changed same",
        ])
    }
  }

  @Test func moreChangesThanAreKeptAreAnOverflow() async throws {
    try await withDirectory { directory, loop in
      let iterator = try await FileSystem.watch(directory, loop: loop).makeAsyncIterator()
      for number in 0..<1_000 { RawFile.make(directory.appending("many\(number)")) }
      try await flush(directory, loop)
      #expect(try await next(iterator) == "overflow -")
      // It goes on afterwards.
      RawFile.make(directory.appending("after"))
      #expect(try await next(iterator) == "renamed after")
    }
  }

  @Test func pollingSeesWhatIsMadeChangedAndRemoved() async throws {
    try await withDirectory { directory, loop in
      let file = directory.appending("file")
      let iterator = try await FileSystem.watch(
        file, pollingEvery: .milliseconds(1), loop: loop
      ).makeAsyncIterator()
      // There is none yet.
      #expect(try await next(iterator) == "renamed -")
      RawFile.make(file, "content")
      #expect(try await next(iterator) == "renamed -")
      RawFile.make(file, "content and more")
      try await waitUntil(kind: .changed, iterator)
      try await FileSystem.removeFile(at: file, loop: loop)
      try await waitUntil(kind: .renamed, iterator)
    }
  }

  @Test func aMissingFileCannotBeWatched() async throws {
    try await withDirectory { directory, loop in
      let missing = directory.appending("missing")
      let error = await expectError(.noSuchFile, on: missing) {
        _ = try await FileSystem.watch(missing, loop: loop)
      }
      #expect(error?.operation == "watch")
    }
  }

  @Test(arguments: [nil, Duration.milliseconds(5)])
  func everyoneThatWatchesIsTold(_ interval: Duration?) async throws {
    try await withDirectory { directory, loop in
      let file = directory.appending("file")
      RawFile.make(file)
      let changes = try await manyWatches(10, of: file, interval, loop)
      let told = Tally()
      try await withThrowingTaskGroup { group in
        for change in changes {
          group.addTask {
            for try await _ in change {
              told.add()
              break
            }
          }
        }
        // Again until all have seen it: polling may take two changes for one, or see the first as the start.
        var size = 0
        while told.value < 10 {
          size += 1
          RawFile.make(file, Array(repeating: 1, count: size))
          try await loop.sleep(for: .milliseconds(5))
        }
        try await group.waitForAll()
      }
    }
  }

  @Test(arguments: [nil, Duration.milliseconds(1)])
  func cancellingAWaitIsHarmless(_ interval: Duration?) async throws {
    try await withDirectory { directory, loop in
      let file = directory.appending("file")
      RawFile.make(file)
      let changes = try await FileSystem.watch(file, pollingEvery: interval, loop: loop)
      for round in 0..<200 {
        let waiting = Task { try await changes.makeAsyncIterator().next() }
        if round % 2 == 0 { await Task.yield() }
        waiting.cancel()
        await #expect(throws: CancellationError.self) { try await waiting.value }
      }
      #expect(loop.statistics.handles == 1)
      RawFile.make(file, "changed")
      #expect(try await changes.makeAsyncIterator().next()?.kind == .changed)
    }
  }

  @Test func watchesThatComeAndGoLeaveNoHandle() async throws {
    try await withDirectory { directory, loop in
      let file = directory.appending("file")
      RawFile.make(file)
      var numbers = SeededNumbers(seed: 1)
      for round in 0..<1_000 {
        let watching = Task {
          let interval: Duration? = round % 4 == 0 ? .milliseconds(1) : nil
          for try await _ in try await FileSystem.watch(
            round % 2 == 0 ? file : directory, pollingEvery: interval, loop: loop)
          {}
        }
        if round % 10 == 0 { RawFile.make(file, "\(round)") }
        for _ in 0..<Int.random(in: 0..<10, using: &numbers) { await Task.yield() }
        watching.cancel()
        do { try await watching.value } catch is CancellationError {}
      }
      await expectNothingLeft(on: loop)
    }
  }

  /// In the midst of a callback that others get too.
  @Test func aWatchMayGoWhenItIsTold() async throws {
    try await withDirectory { directory, loop in
      for round in 0..<50 {
        let changes = try await manyWatches(5, of: directory, nil, loop)
        let tasks = changes.map { change in
          Task(executorPreference: loop) {
            for try await _ in change { return }
          }
        }
        RawFile.make(directory.appending("\(round)"))
        for task in tasks { try await task.value }
      }
    }
  }

  @Test(arguments: [nil, Duration.milliseconds(1)])
  func theEndOfTheLoopIsTheEnd(_ interval: Duration?) async throws {
    try await withDirectory { directory, _ in
      let loop = try EventLoop()
      let changes = try await FileSystem.watch(directory, pollingEvery: interval, loop: loop)
      let waiting = Task { try await changes.makeAsyncIterator().next() }
      try await loop.someTurns()
      await loop.shutdown()
      #expect(try await waiting.value == nil)
      #expect(try await changes.makeAsyncIterator().next() == nil)
      await #expect(throws: EventLoopClosed.self) {
        try await FileSystem.watch(directory, loop: loop)
      }
    }
  }
}

private func manyWatches(
  _ count: Int, of path: FilePath, _ interval: Duration?, _ loop: EventLoop
) async throws -> [FileChanges] {
  var changes: [FileChanges] = []
  for _ in 0..<count {
    changes.append(try await FileSystem.watch(path, pollingEvery: interval, loop: loop))
  }
  return changes
}

/// What has changed, as one word for the kind and one for the name.
private func next(_ iterator: FileChanges.AsyncIterator) async throws -> String? {
  try await iterator.next().map { "\($0.kind) \($0.name?.description ?? "-")" }
}

private func waitUntil(_ change: String, _ iterator: FileChanges.AsyncIterator) async throws {
  while try await next(iterator) != change {}
}

private func waitUntil(
  kind: FileChange.Kind, _ iterator: FileChanges.AsyncIterator
) async throws {
  while try await iterator.next()?.kind != kind {}
}

/// Makes a file `last` in `directory`, and returns when a watch that began before was told of it, and so of all that came before.
private func flush(_ directory: FilePath, _ loop: EventLoop) async throws {
  let other = try await FileSystem.watch(directory, loop: loop).makeAsyncIterator()
  RawFile.make(directory.appending("last"))
  while let change = try await other.next(), change.name != "last" {}
  try await loop.someTurns()
}
