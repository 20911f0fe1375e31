/// What one client says and what it is answered; no input or output of its own.
///
/// Loop thread only, as everything that it works with.
final class Session {
  let server: ServerState
  let store: Store
  let number: Int
  var name: [UInt8] = []
  var replies = RESPBuffer()
  /// Whether it ends with the replies that there are.
  private(set) var isOver = false

  /// How many bytes a key or a value may have.
  let bulkLimit: Int
  private var input: InputBuffer
  private var parser: RequestParser

  /// - Parameter bulkLimit: The server's if `nil`.
  init(_ server: ServerState, inputSize: Int = 16_384, bulkLimit: Int? = nil) {
    self.server = server
    store = server.store
    number = server.nextSessionNumber()
    input = InputBuffer(size: inputSize)
    self.bulkLimit = bulkLimit ?? server.options.bulkLimit
    parser = RequestParser(bulkLimit: self.bulkLimit)
  }

  /// What was received and is not of a request that was carried out. Valid until the next ``makeRoom()``.
  var unused: Bytes { Bytes(input.bytes) }

  // MARK: Input

  /// Memory for what comes next, valid until the next call.
  func makeRoom() -> UnsafeMutableRawBufferPointer { input.makeRoom() }

  func received(_ count: Int) { input.received(count) }

  // MARK: Commands

  /// Carries out what has come, until there are so many bytes of replies that they should be sent first.
  ///
  /// - Returns: Whether that was all.
  func runCommands(repliesUpTo limit: Int) -> Bool {
    do {
      while replies.count < limit, !isOver {
        guard try runNext() else { return true }
      }
      return isOver
    } catch {
      replies.error("ERR \(error)")
      isOver = true
      return true
    }
  }

  /// Carries out the next command. Returns whether it was there.
  func runNext() throws(ProtocolError) -> Bool {
    guard let request = try parser.next(in: input.bytes) else { return false }
    if request.arguments.count > 0 { run(request.arguments) }
    input.use(request.count)
    return true
  }

  private func run(_ arguments: Arguments) {
    server.commandCount += 1
    do {
      guard let command = Command.named(arguments[0]) else {
        guard !isForgery(arguments[0]) else {
          isOver = true
          return
        }
        throw CommandError.unknown(arguments)
      }
      guard command.accepts(arguments.count) else { throw CommandError.wrongCount(command.name) }
      try command.run(self, arguments)
    } catch {
      replies.error("\(error)")
    }
  }

  /// Whether this is HTTP: some page has made a browser on this machine send it, and commands may follow.
  private func isForgery(_ name: Bytes) -> Bool { name.isWord("post") || name.isWord("host:") }

  func quit() {
    replies.simple("OK")
    isOver = true
  }
}
