/// A key: any bytes, hashed and compared as memory.
///
/// One that is looked for borrows the memory of the request, so that looking allocates nothing; one that is kept has a copy.
struct Key: Hashable {
  private final class Copy {
    let bytes: UnsafeMutableRawBufferPointer

    init(of other: Bytes) {
      bytes = .allocate(byteCount: other.count, alignment: 1)
      bytes.copyMemory(from: other)
    }

    deinit { bytes.deallocate() }
  }

  /// Valid while the key is, or, if it was borrowed, while the request is.
  let bytes: Bytes
  /// What the bytes belong to, if the key is not borrowed.
  private let copy: Copy?

  init(borrowing bytes: Bytes) {
    self.bytes = bytes
    copy = nil
  }

  init(copying bytes: Bytes) {
    let copy = Copy(of: bytes)
    self.bytes = Bytes(copy.bytes)
    self.copy = copy
  }

  static func == (left: Key, right: Key) -> Bool { left.bytes.hasSameBytes(as: right.bytes) }

  func hash(into hasher: inout Hasher) { hasher.combine(bytes: bytes) }
}
