/// A pattern as of file names: `*`, `?`, `[a-z]`, `[^a-z]`, and `\` before what is meant literally.
struct GlobPattern {
  private let pattern: Bytes

  init(_ pattern: Bytes) { self.pattern = pattern }

  func matches(_ text: String) -> Bool { Array(text.utf8).withUnsafeBytes { matches($0) } }

  /// Only the last star is ever tried again, so this takes no longer than both lengths multiplied.
  func matches(_ text: Bytes) -> Bool {
    var (next, position) = (0, 0)
    var star: (next: Int, position: Int)?
    while position < text.count {
      if next < pattern.count, pattern[next] == UInt8(ascii: "*") {
        next += 1
        star = (next, position)
      } else if let end = endOfMatch(at: next, text[position]) {
        next = end
        position += 1
      } else if let last = star {
        next = last.next
        position = last.position + 1
        star = (next, position)
      } else {
        return false
      }
    }
    return pattern[next...].allSatisfy { $0 == UInt8(ascii: "*") }
  }

  /// Where the pattern goes on if what it has at `index` stands for `byte`.
  private func endOfMatch(at index: Int, _ byte: UInt8) -> Int? {
    guard index < pattern.count else { return nil }
    switch pattern[index] {
    case UInt8(ascii: "?"):
      return index + 1
    case UInt8(ascii: "["):
      let (isMatch, end) = matchClass(at: index + 1, byte)
      return isMatch ? end : nil
    case UInt8(ascii: "\\") where index + 1 < pattern.count:
      return pattern[index + 1] == byte ? index + 2 : nil
    case let literal:
      return literal == byte ? index + 1 : nil
    }
  }

  /// - Parameter start: The place after the bracket.
  private func matchClass(at start: Int, _ byte: UInt8) -> (isMatch: Bool, end: Int) {
    var index = start
    let isNegated = index < pattern.count && pattern[index] == UInt8(ascii: "^")
    if isNegated { index += 1 }
    var isMember = false
    while index < pattern.count, pattern[index] != UInt8(ascii: "]") {
      if pattern[index] == UInt8(ascii: "\\"), index + 1 < pattern.count { index += 1 }
      let first = pattern[index]
      var last = first
      if index + 2 < pattern.count, pattern[index + 1] == UInt8(ascii: "-") {
        last = pattern[index + 2]
        index += 2
      }
      if (min(first, last)...max(first, last)).contains(byte) { isMember = true }
      index += 1
    }
    return (isMember != isNegated, min(index + 1, pattern.count))
  }
}
