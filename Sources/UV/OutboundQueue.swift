/// Writes that the kernel has not taken yet, in order.
struct OutboundQueue {
  struct Entry {
    let ticket: UInt64
    let bytes: [UInt8]
    var sent: Int
    let completion: WriteCompletion

    var remaining: Int { bytes.count - sent }
  }

  // Nil where the entry has left, so that its bytes do not wait for the array to be compacted.
  private var entries: [Entry?] = []
  private var start = 0

  var isEmpty: Bool { start == entries.count }

  /// Bytes that are not yet handed to libuv.
  private(set) var byteCount = 0

  mutating func append(_ entry: Entry) {
    entries.append(entry)
    byteCount += entry.remaining
  }

  var first: Entry? { isEmpty ? nil : entries[start] }

  /// Notes that `count` bytes of the first entry are gone.
  mutating func advanceFirst(by count: Int) {
    entries[start]!.sent += count
    byteCount -= count
  }

  mutating func removeFirst() -> Entry {
    let entry = entries[start].take()!
    byteCount -= entry.remaining
    start += 1
    compact()
    return entry
  }

  /// Takes out the write with that ticket.
  mutating func remove(_ ticket: UInt64) -> Entry? {
    guard let index = entries[start...].firstIndex(where: { $0?.ticket == ticket }),
      let entry = entries.remove(at: index)
    else { return nil }
    byteCount -= entry.remaining
    return entry
  }

  mutating func removeAll() -> [Entry] {
    let all = entries[start...].compactMap { $0 }
    self = OutboundQueue()
    return all
  }

  /// Copies as many of the first bytes as fit into `block`. Writes that were copied to the end leave the queue.
  mutating func fill(_ block: UnsafeMutableRawBufferPointer) -> (count: Int, ended: [Entry]) {
    var count = 0
    var ended: [Entry] = []
    while let entry = first, count < block.count {
      let part = min(entry.remaining, block.count - count)
      entry.bytes.withUnsafeBytes { bytes in
        let source = UnsafeRawBufferPointer(rebasing: bytes[entry.sent..<entry.sent + part])
        UnsafeMutableRawBufferPointer(rebasing: block[count...]).copyMemory(from: source)
      }
      count += part
      advanceFirst(by: part)
      if part == entry.remaining { ended.append(removeFirst()) } else { break }
    }
    return (count, ended)
  }

  private mutating func compact() {
    if start == entries.count {
      entries.removeAll(keepingCapacity: entries.count <= 64)
      start = 0
    } else if start >= 1_024, start * 2 >= entries.count {
      entries.removeFirst(start)
      start = 0
    }
  }
}

/// How a write's end is told.
enum WriteCompletion {
  case continuation(LoopContinuation<Void>)
  case operation(any WriteConsumer)
}

/// Gets the result of one write, on the loop thread. A class, so that a write needs no closure.
package protocol WriteConsumer: AnyObject, Sendable {
  func writeDidFinish(_ result: consuming Result<Void, any Error>)
}
