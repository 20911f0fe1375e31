import Foundation
import TestSupport
import Testing
import UV

/// What `copy-file` leaves behind when it is ended.
@Suite(.timeLimit(.minutes(1)))
struct CopyFileEndTests {
  @Test(arguments: [(SIGINT, 130), (SIGTERM, 143)] as [(CInt, Int32)], [nil, "old"])
  func aSignalRemovesThePartOfACopy(signal: (number: CInt, status: Int32), old: String?)
    async throws
  {
    try await withCopyPlace { place in
      if let old { try await place.write(Array(old.utf8), to: "b") }
      let fifo = try Fifo(at: place.of("a"))
      let process = try place.start("a", "b")
      defer { process.send(SIGKILL) }
      await fifo.write(100_000)
      await eventually("it waits for more") { place.unfinished == 100_000 }
      process.send(signal.number)
      #expect(try await process.waitUntilExit() == .init(status: signal.status))
      #expect(place.names == (old == nil ? ["a"] : ["a", "b"]))
      if let old { #expect(try await place.bytes(of: "b") == Array(old.utf8)) }
      #expect(process.text() == "" && process.text(.errors) == "")
    }
  }

  @Test func aSignalEndsWhatFollowsToo() async throws {
    try await withCopyPlace { place in
      let fifo = try Fifo(at: place.of("a"))
      try await place.write([1], to: "b")
      try await place.write([2], to: "c")
      try await FileSystem.createDirectory(at: place.of("directory"))
      let process = try place.start("b", "a", "c", "directory")
      defer { process.send(SIGKILL) }
      await fifo.write(1)
      await eventually("the first is copied") { process.lines().count == 1 }
      process.send(SIGINT)
      #expect(try await process.waitUntilExit() == .init(status: 130))
      let names = try FileManager.default.contentsOfDirectory(atPath: place.of("directory"))
      #expect(names == ["b"])
    }
  }

  @Test func aSignalEndsTheOpeningOfAFifoThatNobodyWritesTo() async throws {
    try await withCopyPlace { place in
      try #require(mkfifo(place.of("a"), 0o600) == 0)
      try await place.write([1], to: "c")
      try await FileSystem.createDirectory(at: place.of("directory"))
      let process = try place.start("c", "a", "directory")
      defer { process.send(SIGKILL) }
      await eventually("the first is copied") { process.lines().count == 1 }
      process.send(SIGINT)
      #expect(try await process.waitUntilExit() == .init(status: 130))
    }
  }

  @Test func aSecondSignalEndsItAtOnce() async throws {
    try await withCopyPlace { place in
      try await place.write(Pattern.bytes(1_000_000), to: "a")
      let fifo = try Fifo(at: place.of("b"))
      let process = try place.start("a", "b")
      defer { process.send(SIGKILL) }
      // A write to a FIFO that is full cannot be stopped, and the first signal waits for it.
      await eventually("it copies") { fifo.read(upTo: 1).count == 1 }
      await eventually("it ends") {
        process.send(SIGINT)
        return process.exit != nil
      }
      #expect(process.exit == .init(status: 130))
    }
  }

  // MARK: Killed

  @Test(arguments: 0..<10, [nil, "old"])
  func killedWhileItCopiesItLeavesTheDestinationAsItWas(moment: Int, old: String?) async throws {
    try await withCopyPlace { place in
      if let old { try await place.write(Array(old.utf8), to: "b") }
      let fifo = try Fifo(at: place.of("a"))
      let process = try place.start("a", "b")
      defer { process.send(SIGKILL) }
      await fifo.write(moment * 100_000)
      await eventually("it waits for more") { place.unfinished == moment * 100_000 }
      process.send(SIGKILL)
      #expect(try await process.waitUntilExit() == .init(status: SIGKILL, isSignal: true))
      #expect(place.names.filter { !$0.hasPrefix(".") } == (old == nil ? ["a"] : ["a", "b"]))
      if let old { #expect(try await place.bytes(of: "b") == Array(old.utf8)) }
    }
  }

  @Test func killedAtAnyMomentItLeavesNoDestinationOrAWholeOne() async throws {
    try await withCopyPlace { place in
      let bytes = Pattern.bytes(64 << 20)
      try await place.write(bytes, to: "a")
      for moment in 0..<10 {
        let process = try place.start("a", "b")
        defer { process.send(SIGKILL) }
        await eventually("it is so far") {
          process.exit != nil || place.names.contains("b")
            || (place.unfinished ?? -1) >= moment * bytes.count / 10
        }
        process.send(SIGKILL)
        _ = try await process.waitUntilExit()
        if place.names.contains("b") { #expect(try await place.bytes(of: "b") == bytes) }
        for name in place.names where name != "a" {
          try await FileSystem.removeFile(at: place.of(name))
        }
      }
    }
  }
}
