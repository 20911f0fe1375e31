/// What has been received and is not used up yet, in one piece of memory, into which the next bytes are read.
struct InputBuffer: ~Copyable {
  /// More than this is not kept when it is not needed any more.
  private static let keptSize = 1 << 20

  private let usualSize: Int
  private var memory: UnsafeMutableRawBufferPointer
  private var start = 0
  private var end = 0

  init(size: Int = 16_384) {
    usualSize = size
    memory = .allocate(byteCount: size, alignment: 1)
  }

  deinit { memory.deallocate() }

  var count: Int { end - start }

  /// What is not used up. Valid until the next ``makeRoom()``.
  var bytes: UnsafeMutableRawBufferPointer {
    UnsafeMutableRawBufferPointer(rebasing: memory[start..<end])
  }

  /// Memory for the next bytes, valid until the next call: ``received(_:)`` says how many have come. It grows with what is there.
  mutating func makeRoom() -> UnsafeMutableRawBufferPointer {
    if count == 0 {
      (start, end) = (0, 0)
      if memory.count > max(usualSize, InputBuffer.keptSize) { move(toSize: usualSize) }
    } else if memory.count - end < memory.count / 4 {
      move(toSize: count > memory.count / 2 ? memory.count * 2 : memory.count)
    }
    return UnsafeMutableRawBufferPointer(rebasing: memory[end...])
  }

  mutating func received(_ count: Int) { end += count }

  mutating func use(_ count: Int) { start += count }

  /// Puts the bytes at the beginning of memory of that size.
  private mutating func move(toSize size: Int) {
    if size == memory.count {
      memory.copyMemory(from: UnsafeRawBufferPointer(bytes))
    } else {
      let larger = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 1)
      larger.copyMemory(from: UnsafeRawBufferPointer(bytes))
      memory.deallocate()
      memory = larger
    }
    (start, end) = (0, count)
  }
}
