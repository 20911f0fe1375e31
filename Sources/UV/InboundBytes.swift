/// Bytes that have arrived and that nobody has read yet.
struct InboundBytes {
  private var bytes: [UInt8] = []
  private var start = 0

  var count: Int { bytes.count - start }
  var isEmpty: Bool { count == 0 }

  mutating func append(_ arrived: UnsafeRawBufferPointer) {
    // A reader that never catches up must not make us keep what it has read.
    if start > count {
      bytes.removeFirst(start)
      start = 0
    }
    bytes.append(contentsOf: arrived)
  }

  /// The first bytes, `limit` at most. The array itself is handed over when it holds just them.
  mutating func take(upTo limit: Int) -> [UInt8] {
    if start == 0, bytes.count <= limit {
      let all = bytes
      bytes = []
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
  }

  private mutating func drop(to end: Int) {
    if end == bytes.count { removeAll() } else { start = end }
  }
}
