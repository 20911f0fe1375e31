/// When keys expire.
struct Expiries {
  private struct Expiry {
    let key: Key
    /// In milliseconds since 1970.
    let deadline: Int
    /// Tells it from every other one, of the same key too.
    let number: Int
  }

  private var current: [Key: Expiry] = [:]
  /// The next one first: a binary heap. Those that are not current any more stay in it until there are too many.
  private var heap: [Expiry] = []
  private var lastNumber = 0

  /// How many keys expire.
  var count: Int { current.count }

  /// When the key expires, in milliseconds since 1970; `nil` for never.
  func deadline(of key: Key) -> Int? { current[key]?.deadline }

  mutating func set(_ key: Key, to deadline: Int) {
    lastNumber += 1
    let expiry = Expiry(key: key, deadline: deadline, number: lastNumber)
    current[key] = expiry
    heap.append(expiry)
    siftUp(heap.count - 1)
    removeOutdated()
  }

  mutating func remove(_ key: Key) { current[key] = nil }

  mutating func removeAll() {
    current = [:]
    heap = []
  }

  /// The key that expires next, and when.
  mutating func next() -> (key: Key, deadline: Int)? {
    while let first = heap.first {
      if isCurrent(first) { return (first.key, first.deadline) }
      removeFirst()
    }
    return nil
  }

  private func isCurrent(_ expiry: Expiry) -> Bool { current[expiry.key]?.number == expiry.number }

  // MARK: The heap

  /// Makes the heap anew when most of it is not current.
  private mutating func removeOutdated() {
    guard heap.count > 2 * current.count + 1_000 else { return }
    heap = Array(current.values)
    for index in (0..<heap.count / 2).reversed() { siftDown(index) }
  }

  private mutating func removeFirst() {
    heap.swapAt(0, heap.count - 1)
    heap.removeLast()
    siftDown(0)
  }

  private mutating func siftUp(_ start: Int) {
    var index = start
    while index > 0, heap[index].deadline < heap[(index - 1) / 2].deadline {
      heap.swapAt(index, (index - 1) / 2)
      index = (index - 1) / 2
    }
  }

  private mutating func siftDown(_ start: Int) {
    var index = start
    while true {
      var least = index
      for child in [2 * index + 1, 2 * index + 2] where child < heap.count {
        if heap[child].deadline < heap[least].deadline { least = child }
      }
      if least == index { return }
      heap.swapAt(index, least)
      index = least
    }
  }
}
