import Glibc
import TestSupport
import Testing
import UV

/// Opening, closing, cancelling, dropping, and the end of the loop.
@Suite(.timeLimit(.minutes(1))) struct FileLifeTests {
  // MARK: Opening

  @Test func aMissingFileIsAnErrorThatNamesIt() async throws {
    try await withDirectory { directory, loop in
      let path = directory.appending("missing")
      let error = await expectError(.noSuchFile, on: path) {
        _ = try await File.open(at: path, loop: loop)
      }
      #expect(error?.description == "open \(path): no such file or directory (ENOENT)")
      await expectError(.noSuchFile) { _ = try await File.open(at: path, .writing, loop: loop) }
      await expectError(.noSuchFile) {
        _ = try await File.open(at: path.appending("below"), .create, loop: loop)
      }
      await expectError(.noSuchFile) { _ = try await File.open(at: "", loop: loop) }
      #expect(RawFile.names(directory) == [])
    }
  }

  @Test func aDirectoryAndAFileAreNotTakenForEachOther() async throws {
    try await withDirectory { directory, loop in
      let file = directory.appending("file")
      RawFile.make(file, "kept")
      await expectError(.isDirectory) {
        _ = try await File.open(at: directory, .writing, loop: loop)
      }
      await expectError(.isDirectory) {
        try await FileSystem.writeFile("x", to: directory, loop: loop)
      }
      await expectError(.notDirectory) {
        _ = try await File.open(at: file.appending("below"), loop: loop)
      }
      await expectError(.notDirectory) { _ = try await File.open(at: "\(file)/", loop: loop) }
    }
  }

  @Test func optionsDoWhatTheySay() async throws {
    try await withDirectory { directory, loop in
      let path = directory.appending("file")
      try await FileSystem.withFile(
        at: path, [.writing, .exclusive], permissions: 0o600, loop: loop
      ) { file in
        try await file.write("content")
        #expect(try await file.info().permissions == 0o600)
      }
      await expectError(.alreadyExists, on: path) {
        _ = try await File.open(at: path, [.writing, .exclusive], loop: loop)
      }
      try await FileSystem.withFile(at: path, [.writing, .create], loop: loop) { _ in }
      #expect(RawFile.content(path) == Array("content".utf8))
      try await FileSystem.withFile(at: path, [.writing, .truncate], loop: loop) { _ in }
      #expect(RawFile.content(path) == [])
      try await FileSystem.withFile(at: path, [.writing, .synchronous], loop: loop) {
        try await $0.write("synchronous")
      }
      #expect(RawFile.content(path) == Array("synchronous".utf8))
      let link = directory.appending("link")
      RawFile.makeLink(link, to: path)
      await expectError(.tooManySymbolicLinks) {
        _ = try await File.open(at: link, .notFollowing, loop: loop)
      }
      #expect(try await FileSystem.readFile(at: link, loop: loop).count == 11)
    }
  }

  @Test func noDescriptorIsLeftToChildren() async throws {
    try await withDirectory { directory, loop in
      let path = directory.appending("file")
      try await FileSystem.withFile(at: path, [.writing, .create], loop: loop) { _ in
        let descriptors = RawFile.openDescriptors(in: directory)
        #expect(descriptors.count == 1)
        #expect(descriptors.allSatisfy { fcntl($0, F_GETFD) & FD_CLOEXEC != 0 })
      }
    }
  }

  @Test func namesThatAreTooLongAndLinksInACircleAreErrors() async throws {
    try await withDirectory { directory, loop in
      await expectError(.nameTooLong) {
        let name = String(repeating: "x", count: 256)
        _ = try await File.open(at: directory.appending(name), [.writing, .create], loop: loop)
      }
      await expectError(.nameTooLong) {
        let deep = String(repeating: "x/", count: 2_100)
        _ = try await File.open(at: directory.appending(deep), loop: loop)
      }
      let (one, other) = (directory.appending("one"), directory.appending("other"))
      RawFile.makeLink(one, to: other)
      RawFile.makeLink(other, to: one)
      await expectError(.tooManySymbolicLinks, on: one) {
        _ = try await File.open(at: one, loop: loop)
      }
      await expectError(.tooManySymbolicLinks) {
        _ = try await FileSystem.canonicalPath(of: one, loop: loop)
      }
    }
  }

  /// The tests may run as root, whom no permission stops.
  @Test func permissionsAreRespected() async throws {
    try await withDirectory { directory, loop in
      let secret = directory.appending("secret")
      RawFile.make(secret, "secret")
      RawFile.setPermissions(secret, 0)
      RawFile.setPermissions(directory, 0o755)
      let closed = directory.appending("closed")
      RawFile.makeDirectory(closed)
      RawFile.setPermissions(closed, 0)
      defer { RawFile.setPermissions(closed, 0o700) }
      await #expect(processExitsWith: .success) { [place = directory.string! as String] in
        // Before the pool has threads.
        if geteuid() == 0 { precondition(setuid(65_534) == 0) }
        let place = FilePath(place)
        let (secret, closed) = (place.appending("secret"), place.appending("closed"))
        try await withLoop { loop in
          await expectError(.permissionDenied, on: secret) {
            _ = try await File.open(at: secret, loop: loop)
          }
          await expectError(.permissionDenied) {
            try await FileSystem.writeFile("x", to: place.appending("new"), loop: loop)
          }
          await expectError(.permissionDenied) {
            try await FileSystem.removeFile(at: secret, loop: loop)
          }
          await expectError(.permissionDenied) {
            for try await _ in FileSystem.entries(of: closed, loop: loop) {}
          }
          await expectError(.permissionDenied) {
            for try await _ in FileSystem.walk(place, loop: loop) {}
          }
          let errors = Collected<IOError>()
          var count = 0
          for try await _ in FileSystem.walk(place, loop: loop, onError: { errors.append($0) }) {
            count += 1
          }
          #expect(count == 2)
          let refused = IOError(.permissionDenied, "open directory", closed.description)
          #expect(errors.values == [refused])
          await expectError(.permissionDenied) {
            let tree = FileSystem.walk(closed, loop: loop, onError: { errors.append($0) })
            for try await _ in tree {}
          }
          #expect(errors.count == 1)
          await expectError(.permissionDenied) {
            try await FileSystem.removeTree(at: closed, loop: loop)
          }
          await expectError(.permissionDenied) {
            try await FileSystem.copyFile(from: secret, to: "/dev/null", loop: loop)
          }
          await expectError(.permissionDenied) {
            try await FileSystem.replaceFile(at: secret, with: [1], loop: loop)
          }
          await expectError(.permissionDenied) {
            _ = try await FileSystem.info(at: closed.appending("x"), loop: loop)
          }
          let mayRead = try await FileSystem.mayAccess(secret, for: .reading, loop: loop)
          let mayList = try await FileSystem.mayAccess(
            place, for: [.reading, .executing], loop: loop)
          precondition(!mayRead && mayList)
        }
      }
      #expect(RawFile.names(directory) == ["closed", "secret"])
    }
  }

  @Test func manyOpensWithFewDescriptorsEndOneByOne() async throws {
    await #expect(processExitsWith: .success) {
      try await withDirectory { directory, loop in
        let path = directory.appending("file")
        RawFile.make(path, "content")
        _ = try await FileSystem.readFile(at: path, loop: loop)
        let base = openDescriptors()
        var limit = rlimit(rlim_cur: rlim_t(base + 200), rlim_max: rlim_t(base + 200))
        precondition(setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0)
        let (files, refused) = await withTaskGroup(of: Result<File, any Error>.self) { group in
          for _ in 0..<10_000 {
            // Not on Dispatch's threads: it counts those that run, by files of /proc, and ends the process when it cannot open one.
            group.addTask(executorPreference: loop) {
              do { return .success(try await File.open(at: path, loop: loop)) } catch {
                return .failure(error)
              }
            }
          }
          var files: [File] = []
          var refused = 0
          for await result in group {
            switch result {
            case .success(let file): files.append(file)
            case .failure(let error as IOError) where error.code == .tooManyOpenFiles: refused += 1
            case .failure(let error): fatalError("\(error)")
            }
          }
          return (files, refused)
        }
        precondition(files.count + refused == 10_000)
        precondition(files.count > 150 && refused > 0, "\(files.count), \(refused)")
        for file in files { try await file.close() }
        await expectDescriptors(base)
        let content = try await FileSystem.readFile(at: path, loop: loop)
        precondition(content.count == 7)
      }
    }
  }

  // MARK: Closing

  @Test(arguments: Place.allCases)
  func everythingAfterTheCloseIsRefused(_ place: Place) async throws {
    try await withOpenFile { file in
      try await place.run(file.loop) {
        try await file.close()
        try await file.close()
        let path = file.path
        await #expect(throws: FileClosed("read", path)) { try await file.read(upTo: 1) }
        await #expect(throws: FileClosed("read", path)) { try await file.read(upTo: 1, at: 0) }
        await #expect(throws: FileClosed("read", path)) { try await file.readAll() }
        await #expect(throws: FileClosed("read", path)) { for try await _ in file.chunks() {} }
        await #expect(throws: FileClosed("read", path)) { for try await _ in file.lines() {} }
        await #expect(throws: FileClosed("write", path)) { try await file.write("x") }
        await #expect(throws: FileClosed("write", path)) { try await file.write("x", at: 0) }
        await #expect(throws: FileClosed("stat", path)) { try await file.info() }
        await #expect(throws: FileClosed("sync", path)) { try await file.sync() }
        await #expect(throws: FileClosed("sync", path)) { try await file.dataSync() }
        await #expect(throws: FileClosed("truncate", path)) { try await file.truncate(to: 0) }
        await #expect(throws: FileClosed.self) { try await file.setPermissions(0o600) }
        await #expect(throws: FileClosed.self) { try await file.setOwner(userID: 0) }
        await #expect(throws: FileClosed.self) {
          try await file.setTimes(accessed: .now, modified: .now)
        }
        await #expect(throws: FileClosed.self) { try await file.cursor() }
        await #expect(throws: FileClosed.self) { try await file.setCursor(to: 0) }
        try await file.close()
      }
    }
  }

  /// A descriptor that is closed under a read could be another file's by then.
  @Test(arguments: Place.allCases)
  func closeWaitsForWhatIsUnderWay(_ place: Place) async throws {
    try await withOpenFile(Pattern.bytes(300_000)) { file in
      try await place.run(file.loop) {
        for isSequential in [true, false] {
          let file = try await File.open(at: file.path, loop: file.loop)
          let ended = Tally()
          // Queued on the loop thread, so that all of them come before the close.
          try await file.loop.run {
            for part in 0..<30 {
              file.core.read(upTo: 10_000, at: isSequential ? nil : part * 10_000).start {
                #expect((try? $0.get()) == Pattern.bytes(part * 10_000..<(part + 1) * 10_000))
                ended.add()
              }
            }
          }
          async let other: Void = file.close()
          try await file.close()
          #expect(ended.value == 30)
          try await other
        }
      }
    }
  }

  @Test func closingManyTimesAtOnceEndsEveryCall() async throws {
    try await withOpenFile { file in
      try await withThrowingTaskGroup { group in
        for _ in 0..<100 { group.addTask { try await file.close() } }
        try await group.waitForAll()
      }
    }
  }

  @Test func closingInACancelledTaskCloses() async throws {
    try await withDirectory { directory, loop in
      let path = directory.appending("file")
      RawFile.make(path)
      let file = try await File.open(at: path, loop: loop)
      let closing = Task {
        withUnsafeCurrentTask { $0?.cancel() }
        try await file.close()
      }
      try await closing.value
      await expectNothingOpen(in: directory)
    }
  }

  @Test func withFileClosesOnEveryWayOut() async throws {
    try await withDirectory { directory, loop in
      let path = directory.appending("file")
      RawFile.make(path)
      await #expect(throws: Mistake.self) {
        try await FileSystem.withFile(at: path, loop: loop) { _ in throw Mistake() }
      }
      #expect(RawFile.openDescriptors(in: directory).isEmpty)
      let waiting = Task {
        try await FileSystem.withFile(at: path, loop: loop) { _ in
          try await loop.sleep(for: .seconds(600))
        }
      }
      await eventually("the file is open") { !RawFile.openDescriptors(in: directory).isEmpty }
      waiting.cancel()
      await #expect(throws: CancellationError.self) { try await waiting.value }
      #expect(RawFile.openDescriptors(in: directory).isEmpty)
    }
  }

  // MARK: Cancelling

  @Test func cancellingAtAnyMomentLosesNoDescriptor() async throws {
    try await withDirectory { directory, loop in
      let path = directory.appending("file")
      RawFile.make(path, Pattern.bytes(20_000))
      var numbers = SeededNumbers(seed: 7)
      let reports = Collected<String>()
      try await withReports(about: directory, to: reports) {
        for _ in 0..<1_000 {
          let task = Task {
            try await FileSystem.withFile(at: path, [.reading, .writing], loop: loop) { file in
              let read = try await file.read(upTo: 100)
              #expect(read == Pattern.bytes(100))
              try await file.write(Pattern.bytes(100..<200))
              for try await chunk in file.chunks(of: 5_000) { #expect(chunk.count == 5_000) }
              try await withMemory(20_000) { memory in
                let count = try await file.read(into: memory, at: 0)
                // The end would be a lie.
                #expect(count != nil)
              }
              _ = try await file.info()
            }
          }
          for _ in 0..<Int.random(in: 0..<40, using: &numbers) { await Task.yield() }
          task.cancel()
          do { try await task.value } catch is CancellationError {}
        }
        await expectNothingLeft(on: loop)
        await expectNothingOpen(in: directory)
      }
      #expect(reports.values == [])
      #expect(RawFile.content(path) == Pattern.bytes(20_000))
    }
  }

  /// A cancellation that comes when the read has its thread and nothing yet.
  @Test func aCancelledReadIntoMemoryIsNotTheEnd() async throws {
    try await withOpenFile(Pattern.bytes(64)) { file in
      for _ in 0..<3_000 {
        let reading = Task {
          try await withMemory(64) { try await file.read(into: $0, at: 0) }
        }
        await Task.yield()
        reading.cancel()
        do {
          let count = try await reading.value
          #expect(count == 64)
        } catch is CancellationError {}
      }
    }
  }

  @Test func aCancelledTaskStartsNothing() async throws {
    try await withDirectory { directory, loop in
      let path = directory.appending("file")
      let task = Task {
        withUnsafeCurrentTask { $0?.cancel() }
        try await FileSystem.writeFile("x", to: path, loop: loop)
      }
      await #expect(throws: CancellationError.self) { try await task.value }
      #expect(!RawFile.exists(path))
    }
  }

  // MARK: Dropping

  @Test func aDroppedFileIsClosedAndReported() async throws {
    try await withDirectory { directory, loop in
      let path = directory.appending("dropped")
      RawFile.make(path)
      let reports = Collected<String>()
      try await withReports(about: directory, to: reports) {
        for _ in 0..<10 { _ = try await File.open(at: path, loop: loop) }
        await expectNothingOpen(in: directory)
        #if DEBUG
          await reports.waitUntil(count: 10)
          #expect(reports.values.allSatisfy { $0.contains("\(path): a file was dropped") })
        #endif
      }
    }
  }

  @Test func aFileThatIsDroppedWithTheLoopIsClosed() async throws {
    try await withDirectory { directory, _ in
      let path = directory.appending("file")
      RawFile.make(path)
      let reports = Collected<String>()
      try await withReports(about: directory, to: reports) {
        for _ in 0..<50 {
          let loop = try EventLoop()
          let file = try await File.open(at: path, [.reading, .writing], loop: loop)
          let writing = Task { try await file.write(Pattern.bytes(100_000), at: 0) }
          await loop.shutdown()
          do { try await writing.value } catch is EventLoopClosed {}
        }
        await expectNothingOpen(in: directory)
      }
    }
  }

  // MARK: The end of the loop

  @Test func afterTheLoopAFileCanOnlyBeClosed() async throws {
    try await withDirectory { directory, _ in
      let path = directory.appending("file")
      RawFile.make(path, "content")
      let loop = try EventLoop()
      let file = try await File.open(at: path, [.reading, .writing], loop: loop)
      await loop.shutdown()
      await #expect(throws: EventLoopClosed.self) { try await file.read(upTo: 1) }
      await #expect(throws: EventLoopClosed.self) { try await file.readAll() }
      await #expect(throws: EventLoopClosed.self) { try await file.write("x") }
      await #expect(throws: EventLoopClosed.self) { try await file.info() }
      await #expect(throws: EventLoopClosed.self) { try await file.cursor() }
      await #expect(throws: EventLoopClosed.self) { for try await _ in file.chunks() {} }
      await #expect(throws: EventLoopClosed.self) { try await File.open(at: path, loop: loop) }
      await #expect(throws: EventLoopClosed.self) {
        for try await _ in FileSystem.entries(of: directory, loop: loop) {}
      }
      #expect(RawFile.openDescriptors(in: directory).count == 1)
      try await file.close()
      #expect(RawFile.openDescriptors(in: directory).isEmpty)
      try await file.close()
    }
  }

  @Test func aShutdownAtAnyMomentEndsEveryCall() async throws {
    try await withDirectory { directory, _ in
      let path = directory.appending("file")
      RawFile.make(path, Pattern.bytes(50_000))
      for round in 0..<60 {
        let loop = try EventLoop()
        let tasks = (0..<20).map { _ in
          Task {
            try await FileSystem.withFile(at: path, loop: loop) { file in
              for try await _ in file.chunks(of: 5_000) {}
              for try await _ in FileSystem.entries(of: directory, loop: loop) {}
            }
          }
        }
        for _ in 0..<round { await Task.yield() }
        await loop.shutdown(gracePeriod: round % 3 == 0 ? .milliseconds(1) : .zero)
        for task in tasks { do { try await task.value } catch is EventLoopClosed {} }
      }
    }
  }
}

private struct Mistake: Error {}

private func withOpenFile(
  _ bytes: [UInt8] = Array("content".utf8), _ body: (File) async throws -> Void
) async throws {
  try await withDirectory { directory, loop in
    let path = directory.appending("file")
    RawFile.make(path, bytes)
    try await FileSystem.withFile(at: path, [.reading, .writing], loop: loop, body)
  }
}
