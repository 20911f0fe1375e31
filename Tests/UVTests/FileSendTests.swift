import TestSupport
import Testing
import UV

@Suite(.timeLimit(.minutes(1))) struct FileSendTests {
  @Test(arguments: Place.allCases, [0, 1, 131_072, 131_073, 10_000_000])
  func aFileIsSentWhole(_ place: Place, _ count: Int) async throws {
    try await withFile(count) { file in
      try await withConnectedStreams(place) { (near, far) async throws in
        let sending = Task {
          let sent = try await file.send(to: near)
          try await near.shutdownSending()
          return sent
        }
        #expect(try await far.readPattern() == count)
        #expect(try await sending.value == count)
      }
      #expect(try await file.cursor() == 0)
    }
  }

  @Test func aPartIsSent() async throws {
    try await withFile(500_000) { file in
      try await withConnectedStreams { (near, far) async throws in
        #expect(try await file.send(to: near, from: 100, count: 1_000) == 1_000)
        #expect(try await far.readPattern(1_000, from: 100) == 1_000)
        let sending = Task { try await file.send(to: near, from: 10, count: 300_000) }
        #expect(try await far.readPattern(300_000, from: 10) == 300_000)
        #expect(try await sending.value == 300_000)
        #expect(try await file.send(to: near, from: 499_990, count: 1_000) == 10)
        #expect(try await far.readPattern(10, from: 499_990) == 10)
        #expect(try await file.send(to: near, from: 600_000) == 0)
        #expect(try await file.send(to: near, count: 0) == 0)
        await expectError(.invalidArgument) { try await file.send(to: near, from: -1) }
      }
    }
  }

  @Test func aPeerThatDoesNotReadHoldsTheSender() async throws {
    try await withFile(20_000_000) { file in
      try await withConnectedStreams(options: .smallBuffers) { near, far in
        let isDone = Event()
        let sending = Task {
          try await file.send(to: near)
          isDone.set()
        }
        await eventually("the stream is full") { near.bytesQueued > 0 }
        try await near.loop.someTurns()
        #expect(!isDone.isSet)
        // A piece or two, not the file.
        #expect(near.bytesQueued <= 300_000)
        #expect(try await far.readPattern(20_000_000) == 20_000_000)
        try await sending.value
      }
    }
  }

  @Test func aPeerThatGoesIsAnError() async throws {
    try await withFile(20_000_000) { file in
      try await withConnectedStreams(options: .smallBuffers) { (near, far) async throws in
        let sending = Task { try await file.send(to: near) }
        await eventually("the stream is full") { near.bytesQueued > 0 }
        far.abort()
        await #expect(throws: IOError.self) { try await sending.value }
        // The file has no part in it.
        #expect(try await file.read(upTo: 5) == Pattern.bytes(5))
      }
    }
  }

  @Test func sendingIsCancelled() async throws {
    try await withFile(20_000_000) { file in
      try await withConnectedStreams(options: .smallBuffers) { near, _ in
        let sending = Task { try await file.send(to: near) }
        await eventually("the stream is full") { near.bytesQueued > 0 }
        sending.cancel()
        await #expect(throws: CancellationError.self) { try await sending.value }
      }
    }
  }

  @Test func aClosedFileIsNotSent() async throws {
    try await withFile(100) { file in
      try await withConnectedStreams { near, _ in
        try await file.close()
        await #expect(throws: FileClosed.self) { try await file.send(to: near) }
      }
    }
  }
}

private func withFile(_ count: Int, _ body: (File) async throws -> Void) async throws {
  try await withDirectory { directory, loop in
    let path = directory.appending("file")
    RawFile.make(path, Pattern.bytes(count))
    try await FileSystem.withFile(at: path, loop: loop, body)
  }
}
