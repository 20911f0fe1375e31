import TestSupport
import Testing
import UV

/// Writes of what is not an array.
@Suite(.timeLimit(.minutes(1))) struct TCPWriteKindsTests {
  @Test(arguments: Place.allCases, [0, 1, 1_000, 1_048_576])
  func everyByteOfACollectionArrives(_ place: Place, _ count: Int) async throws {
    let bytes = Pattern.bytes(5 * count)
    try await withConnectedStreams(place, options: .smallBuffers) { near, far in
      let reader = Task { try await far.readPattern() }
      // Contiguous, then not; the memory that is written is not the array's first in each case.
      try await near.write(bytes[..<count])
      try await near.write(bytes[count..<2 * count].lazy.map { $0 })
      try await near.write(ContiguousArray(bytes[2 * count..<3 * count]))
      try await near.write(bytes[3 * count..<4 * count].span.bytes)
      try await near.write(contentsOf: split(bytes[(4 * count)...]))
      try await near.shutdownSending()
      #expect(try await reader.value == 5 * count)
    }
  }

  @Test(arguments: Place.allCases)
  func textIsACollectionOfItsBytes(_ place: Place) async throws {
    try await withConnectedStreams(place) { near, far in
      try await near.write("grüße\n".utf8)
      try await near.write("grüße und mehr als in fünfzehn Bytes passt\n".dropFirst(0).utf8)
      try await near.write(repeatElement(UInt8(ascii: "x"), count: 3))
      try await near.write("\n")
      try await near.write("a Substring\n".dropFirst(2))
      #expect(try await far.readLine() == "grüße")
      #expect(try await far.readLine() == "grüße und mehr als in fünfzehn Bytes passt")
      #expect(try await far.readLine() == "xxx")
      #expect(try await far.readLine() == "Substring")
    }
  }

  @Test(arguments: Place.allCases)
  func nothingIsWrittenOfNothing(_ place: Place) async throws {
    try await withConnectedStreams(place) { near, far in
      try await near.write([UInt8]()[...])
      try await near.write(EmptyCollection<UInt8>())
      try await near.write([UInt8]().span.bytes)
      try await near.write(contentsOf: [])
      try await near.write(contentsOf: [[]])
      try await near.write(contentsOf: [[], [1, 2], [], [3], []])
      try await near.shutdownSending()
      #expect(try await far.read(exactly: 3) == [1, 2, 3])
      #expect(try await far.read() == nil)
    }
  }

  /// What the system does not take at once is the stream's own.
  @Test(arguments: Place.allCases)
  func memoryOfASpanIsNotNeededAfterTheWrite(_ place: Place) async throws {
    let count = 2_097_152
    try await withConnectedStreams(place, options: .smallBuffers) { near, far in
      let reader = Task { try await far.readPattern() }
      for offset in stride(from: 0, to: 2 * count, by: count) {
        var bytes = Pattern.bytes(offset..<offset + count)
        try await near.write(bytes.span.bytes)
        for index in stride(from: 0, to: count, by: 1_024) { bytes[index] = 0xEE }
        withExtendedLifetime(bytes) {}
      }
      try await near.shutdownSending()
      #expect(try await reader.value == 2 * count)
    }
  }

  @Test(arguments: Place.allCases)
  func piecesOfOneWriteStayTogether(_ place: Place) async throws {
    try await withConnectedStreams(place, options: .smallBuffers) { near, far in
      try await withThrowingTaskGroup { group in
        for letter in UInt8(ascii: "a")...UInt8(ascii: "j") {
          group.addTask {
            for _ in 0..<20 {
              let piece = [UInt8](repeating: letter, count: 1_500)
              try await near.write(contentsOf: [piece, piece, piece, [UInt8(ascii: "\n")]])
            }
          }
        }
        for _ in 0..<200 {
          let line = try await far.readLine() ?? ""
          #expect(line.utf8.count == 4_500 && Set(line.utf8).count == 1)
        }
        try await group.waitForAll()
      }
    }
  }

  @Test(arguments: Place.allCases)
  func writesOfEveryKindFailOnAClosedStream(_ place: Place) async throws {
    try await withConnectedStreams(place) { near, far in
      let bytes = Pattern.bytes(10)
      await near.close()
      await #expect(throws: StreamClosed("write")) { try await near.write(bytes[1...]) }
      await #expect(throws: StreamClosed("write")) { try await near.write(bytes.lazy.map { $0 }) }
      await #expect(throws: StreamClosed("write")) { try await near.write(bytes.span.bytes) }
      await #expect(throws: StreamClosed("write")) {
        try await near.write(contentsOf: [bytes, bytes])
      }
    }
  }
}

private func split(_ bytes: ArraySlice<UInt8>) -> [[UInt8]] {
  let size = max(1, bytes.count / 7)
  return stride(from: bytes.startIndex, to: bytes.endIndex, by: size).map {
    Array(bytes[$0..<min($0 + size, bytes.endIndex)])
  }
}
