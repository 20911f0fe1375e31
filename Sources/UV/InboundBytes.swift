internal import Glibc

/// What a read collects before it ends.
enum Portion {
  case exactly(Int)
  /// Everything up to and with the first such byte, `limit` bytes at most.
  case through(UInt8, limit: Int)

  /// How many bytes it may have to wait for.
  var limit: Int {
    switch self {
    case .exactly(let count): count
    // One more shows that there are too many.
    case .through(_, let limit): limit < .max ? limit + 1 : limit
    }
  }
}

/// Bytes that have arrived and that nobody has read yet.
struct InboundBytes {
  private var bytes: [UInt8] = []
  private var start = 0
  /// Where to go on with the search for `sought`, so that a slow sender does not make us search everything again.
  private var searched = 0
  private var sought: UInt8 = 0

  var count: Int { bytes.count - start }
  var isEmpty: Bool { count == 0 }

  mutating func append(_ arrived: UnsafeRawBufferPointer) {
    // A reader that never catches up must not make us keep what it has read.
    if start > count {
      bytes.removeFirst(start)
      searched = max(searched - start, 0)
      start = 0
    }
    bytes.append(contentsOf: arrived)
  }

  /// How many of the first bytes are all of `portion`; `nil` if some are missing.
  mutating func count(of portion: Portion) -> Int? {
    switch portion {
    case .exactly(let wanted): return count >= wanted ? wanted : nil
    case .through(let delimiter, let limit):
      let end = start + min(limit, count)
      let from = delimiter == sought ? max(start, searched) : start
      (sought, searched) = (delimiter, end)
      guard from < end, let index = firstIndex(of: delimiter, in: from..<end) else { return nil }
      searched = index + 1  // There may be more behind it.
      return index + 1 - start
    }
  }

  private func firstIndex(of byte: UInt8, in range: Range<Int>) -> Int? {
    bytes.withUnsafeBytes { all in
      let base = all.baseAddress!
      guard let found = memchr(base + range.lowerBound, CInt(byte), range.count) else { return nil }
      return UnsafeRawPointer(found) - base
    }
  }

  /// The first bytes, `limit` at most. The array itself is handed over when it holds just them.
  mutating func take(upTo limit: Int) -> [UInt8] {
    if start == 0, bytes.count <= limit {
      let all = bytes
      removeAll()
      return all
    }
    let end = start + min(limit, count)
    let taken = Array(bytes[start..<end])
    drop(to: end)
    return taken
  }

  /// Moves the first bytes into `memory`, as many as fit.
  mutating func take(into memory: UnsafeMutableRawBufferPointer) -> Int {
    let taken = min(memory.count, count)
    bytes.withUnsafeBytes {
      memory.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[start..<start + taken]))
    }
    drop(to: start + taken)
    return taken
  }

  mutating func removeAll() {
    bytes = []
    start = 0
    searched = 0
  }

  private mutating func drop(to end: Int) {
    if end == bytes.count { removeAll() } else { start = end }
  }
}
