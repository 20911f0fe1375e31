extension File {
  /// Sends what is in the file on `stream`, and returns how many bytes that were when the system has taken them.
  ///
  /// Any thread. The next piece is read while one is sent; a peer that does not read makes it wait. Other writes to the stream meanwhile come
  /// between the pieces. The cursor neither matters nor moves.
  ///
  /// - Parameters:
  ///   - offset: Where to begin.
  ///   - count: How many bytes to send; `nil` for all up to the end, which also ends it earlier.
  /// - Throws: What reading the file or writing to the stream throws. Some of it may have been sent then.
  @discardableResult
  public func send(
    to stream: TCPStream, from offset: Int = 0, count: Int? = nil
  ) async throws -> Int {
    var left = count ?? .max
    trapUnless(left >= 0, "A file cannot send less than nothing: `count` is \(left).")
    var sent = 0
    if left == 0 { return 0 }
    for try await chunk in chunks(of: min(left, 131_072), from: offset) {
      let piece = chunk.count <= left ? chunk : Array(chunk[..<left])
      try await stream.write(piece)
      sent += piece.count
      left -= piece.count
      if left == 0 { break }
    }
    return sent
  }
}
