import Foundation
import TestSupport
import Testing
import UV

/// What waits for a pipe or copies a file, and is not wanted any more.
@Suite(.timeLimit(.minutes(1)))
struct FileCancellationTests {
  @Test func aFileWhosePipeIsSilentClosesWhenItsReadIsCancelled() async throws {
    try await withSilentPipe { pipe, _, loop in
      let task = Task {
        try await FileSystem.withFile(at: pipe, loop: loop) { try await $0.read(upTo: 10) }
      }
      await eventually { loop.statistics.requests > 0 }
      task.cancel()
      await #expect(throws: CancellationError.self) { try await task.value }
    }
  }

  @Test func aCancelledReadIntoMemoryIsNotTheEndAndLosesNothing() async throws {
    try await withSilentPipe { pipe, descriptor, loop in
      try await FileSystem.withFile(at: pipe, loop: loop) { file in
        let task = Task {
          let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: 10, alignment: 1)
          defer { memory.deallocate() }
          return try await file.read(into: memory)
        }
        await eventually { loop.statistics.requests > 0 }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(write(descriptor, "abc", 3) == 3)
        let bytes = try await file.read(upTo: 10)
        #expect(bytes == Array("abc".utf8))
      }
    }
  }

  @Test func aCopyOfASilentPipeEndsWhenItIsCancelledAndLeavesNothing() async throws {
    try await withSilentPipe { pipe, descriptor, loop in
      let directory = URL(fileURLWithPath: pipe).deletingLastPathComponent().path
      let copied = Tally()
      let task = Task {
        try await FileSystem.copyFile(from: pipe, to: directory + "/copy", loop: loop) {
          copied.add($0.copied)
        }
      }
      // Far less than a few megabytes: what comes slowly is told soon.
      await eventually("progress is reported") {
        _ = write(descriptor, "abc", 3)
        return copied.value > 0
      }
      task.cancel()
      await #expect(throws: CancellationError.self) { try await task.value }
      let names = try names(in: directory)
      #expect(names == ["pipe"])
    }
  }

  @Test func aCopyThatIsCancelledAtAnyMomentLeavesNothingOrIsWhole() async throws {
    try await withDirectory { directory, loop in
      let bytes = Pattern.bytes(100_000)
      try await FileSystem.writeFile(bytes, to: directory + "/a", loop: loop)
      var cancelled = 0
      for turns in 0..<100 {
        let task = Task {
          try await FileSystem.copyFile(
            from: directory + "/a", to: directory + "/b", overwriting: turns.isMultiple(of: 2),
            keepingTimes: true, loop: loop)
        }
        for _ in 0..<turns { await loop.nextTurn() }
        task.cancel()
        let result = await task.result
        let names = try names(in: directory)
        switch result {
        case .success:
          #expect(names == ["a", "b"])
          #expect(try await FileSystem.readFile(at: directory + "/b", loop: loop) == bytes)
          try await FileSystem.removeFile(at: directory + "/b", loop: loop)
        case .failure(let error):
          cancelled += 1
          #expect(error is CancellationError && names == ["a"], "\(error), \(names)")
        }
      }
      // Otherwise this says nothing.
      #expect((2..<98).contains(cancelled))
    }
  }

  private func names(in directory: String) throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: directory).sorted()
  }

  private func withDirectory(_ body: (String, EventLoop) async throws -> Void) async throws {
    let url = FileManager.default.temporaryDirectory.appendingPathComponent("files-\(UUID())")
    try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: url) }
    try await withLoop { try await body(url.path, $0) }
  }

  /// A FIFO that is open at both ends, and says nothing by itself.
  private func withSilentPipe(
    _ body: (_ path: String, _ descriptor: CInt, EventLoop) async throws -> Void
  ) async throws {
    try await withDirectory { directory, loop in
      let path = directory + "/pipe"
      try #require(mkfifo(path, 0o600) == 0)
      let descriptor = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC)
      try #require(descriptor >= 0)
      defer { close(descriptor) }
      try await body(path, descriptor, loop)
    }
  }
}

extension EventLoop {
  fileprivate func nextTurn() async { try? await sleep(for: .zero) }
}
