/// When a key expires.
struct Expiry: Equatable {
  let key: Key
  /// In milliseconds since 1970.
  let deadline: Int
  /// Tells it from every other one, of the same key too.
  fileprivate let number: Int

  static func == (left: Expiry, right: Expiry) -> Bool { left.number == right.number }
}

/// Expiries, the next one first: a binary heap. Those that do not count any more stay in it until there are too many.
struct Expiries {
  private var heap: [Expiry] = []
  private var lastNumber = 0
  /// How many still count.
  private(set) var liveCount = 0

  var first: Expiry? { heap.first }

  mutating func add(_ key: Key, _ deadline: Int) -> Expiry {
    lastNumber += 1
    let expiry = Expiry(key: key, deadline: deadline, number: lastNumber)
    liveCount += 1
    heap.append(expiry)
    siftUp(heap.count - 1)
    return expiry
  }

  mutating func removeFirst() {
    heap.swapAt(0, heap.count - 1)
    heap.removeLast()
    siftDown(0)
  }

  /// One does not count any more.
  ///
  /// - Parameter isLive: Whether one still does.
  mutating func drop(_ isLive: (Expiry) -> Bool) {
    liveCount -= 1
    guard heap.count > 2 * liveCount + 1_000 else { return }
    heap.removeAll { !isLive($0) }
    for index in (0..<heap.count / 2).reversed() { siftDown(index) }
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
