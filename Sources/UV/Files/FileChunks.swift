extension File {
  /// The content in pieces of `size` bytes, the last one shorter; the next is read while one is used.
  ///
  /// Any thread. The cursor neither matters nor moves; of a pipe or terminal the pieces are what is there. It ends at the true end of the
  /// file.
  ///
  /// - Parameter offset: Where to begin.
  public func chunks(of size: Int = 65_536, from offset: Int = 0) -> FileChunks {
    trapUnless(size > 0, "A chunk must have room for a byte: the size is \(size).")
    return FileChunks(file: self, size: size, offset: offset)
  }

  /// The lines of the content as text, without their ends, which are `\n` or `\r\n`. What is not UTF-8 is replaced.
  ///
  /// As ``chunks(of:from:)``.
  ///
  /// - Parameter limit: How long a line may be, in bytes. A longer one throws ``LineTooLong``.
  public func lines(upTo limit: Int = 1 << 20, from offset: Int = 0) -> FileLines {
    FileLines(chunks: chunks(from: offset), limit: limit)
  }
}

/// The pieces of a file, made by ``File/chunks(of:from:)``.
public struct FileChunks: AsyncSequence, Sendable {
  fileprivate let file: File
  fileprivate let size: Int
  fileprivate let offset: Int

  /// Reads one piece ahead. An iteration that is dropped lets go of the file when its last read has ended.
  public final class AsyncIterator: AsyncIteratorProtocol {
    private let file: File  // Held, so that it is not dropped meanwhile.
    private let reader: ReadAhead<[UInt8]>

    fileprivate init(_ chunks: FileChunks) {
      file = chunks.file
      let source = ChunkSource(file.core, size: chunks.size, offset: chunks.offset)
      reader = ReadAhead(loop: file.core.loop, source)
    }

    deinit { reader.drop() }

    public func next() async throws -> [UInt8]? { try await reader.next() }
  }

  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(self) }
}

/// Reads a file from an offset on.
// Unchecked: the variables are loop thread only.
private final class ChunkSource: ReadAheadSource, @unchecked Sendable {
  private let core: FileCore
  private let size: Int
  private var offset: Int
  private var call: BytesRead?

  init(_ core: FileCore, size: Int, offset: Int) {
    self.core = core
    self.size = size
    self.offset = offset
  }

  func fetch(_ completion: @escaping (Result<[UInt8]?, any Error>) -> Void) {
    let call = core.read(upTo: size, at: core.isSeekable ? offset : nil)
    self.call = call
    call.start { result in
      self.call = nil
      completion(
        result.map { bytes in
          self.offset &+= bytes.count
          return bytes.isEmpty ? nil : bytes
        })
    }
  }

  func stop(_ piece: [UInt8]?) {
    call?.cancel(CancellationError())
    // The bytes of a pipe are there once only.
    if let piece, !core.isSeekable { core.putBack(piece) }
  }

  func drop() {}
}

/// The lines of a file, made by ``File/lines(upTo:from:)``.
public struct FileLines: AsyncSequence, Sendable {
  fileprivate let chunks: FileChunks
  fileprivate let limit: Int

  public struct AsyncIterator: AsyncIteratorProtocol {
    private let chunks: FileChunks.AsyncIterator
    private let path: FilePath
    private let limit: Int
    private var bytes: ArraySlice<UInt8> = []
    private var searched = 0
    private var isAtEnd = false

    fileprivate init(_ lines: FileLines) {
      chunks = lines.chunks.makeAsyncIterator()
      path = lines.chunks.file.path
      limit = lines.limit
    }

    public mutating func next() async throws -> String? {
      while true {
        if let line = takeLine() {
          guard line.count <= limit else { throw tooLong }
          return String(decoding: line, as: UTF8.self)
        }
        // A line that may still get its `\r\n`.
        guard bytes.count - 2 <= limit else { throw tooLong }
        if isAtEnd { return nil }
        if let more = try await chunks.next() {
          if bytes.isEmpty { bytes = more[...] } else { bytes += more }
        } else {
          isAtEnd = true
        }
      }
    }

    private var tooLong: LineTooLong { LineTooLong(subject: path.description, limit: limit) }

    /// The next line, without its end, if it is there.
    private mutating func takeLine() -> ArraySlice<UInt8>? {
      let rest = bytes.dropFirst(searched)
      if let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
        let line = bytes[..<end]
        bytes = bytes[(end + 1)...]
        searched = 0
        return line.last == UInt8(ascii: "\r") ? line.dropLast() : line
      }
      searched = bytes.count
      guard isAtEnd, !bytes.isEmpty else { return nil }
      defer { bytes = [] }
      return bytes
    }
  }

  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(self) }
}
