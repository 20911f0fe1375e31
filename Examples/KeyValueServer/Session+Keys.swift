/// Commands about keys and their time to live.
extension Session {
  func delete(_ arguments: Arguments) {
    var removed = 0
    for index in 1..<arguments.count where store.remove(arguments[index]) { removed += 1 }
    if removed > 0 { server.log?.append { $0.command(arguments) } }
    replies.integer(removed)
  }

  func exist(_ arguments: Arguments) {
    var found = 0
    for index in 1..<arguments.count where store.contains(arguments[index]) { found += 1 }
    replies.integer(found)
  }

  func keys(_ arguments: Arguments) {
    let pattern = GlobPattern(arguments[1])
    let keys = store.keys { pattern.matches($0.bytes) }
    replies.array(of: keys.count)
    for key in keys { replies.bulk(key.bytes) }
  }

  func count() { replies.integer(store.count) }

  func removeAll(_ arguments: Arguments) throws(CommandError) {
    if arguments.count > 1 {
      // Whether the memory is freed before the answer, which here it is.
      guard arguments.count == 2, arguments[1].isWord("sync") || arguments[1].isWord("async")
      else { throw .syntax }
    }
    store.removeAll()
    server.log?.append { $0.command(arguments) }
    replies.simple("OK")
  }

  // MARK: Time to live

  func expire(
    _ arguments: Arguments, _ unit: TimeUnit, isRelative: Bool = true, _ name: String
  ) throws(CommandError) {
    let key = arguments[1]
    guard let number = Int(arguments[2]) else { throw .notAnInteger }
    guard let deadline = unit.deadline(number, isRelative: isRelative) else {
      throw .invalidExpireTime(name)
    }
    guard store.contains(key) else { return replies.integer(0) }
    store.setDeadline(of: key, to: deadline)
    server.log?.append { $0.command("PEXPIREAT", Array(key), Array("\(deadline)".utf8)) }
    replies.integer(1)
  }

  func timeToLive(_ arguments: Arguments, _ unit: TimeUnit) {
    switch store.lifetime(of: arguments[1]) {
    case .noSuchKey: replies.integer(-2)
    case .unlimited: replies.integer(-1)
    case .until(let deadline): replies.integer(unit.rounded(remainingTime(until: deadline)))
    }
  }

  func persist(_ arguments: Arguments) {
    guard case .until = store.lifetime(of: arguments[1]) else { return replies.integer(0) }
    store.setDeadline(of: arguments[1], to: nil)
    server.log?.append { $0.command(arguments) }
    replies.integer(1)
  }
}

/// What a number counts that says when a key expires.
enum TimeUnit: Int {
  case milliseconds = 1
  case seconds = 1_000

  /// The time in milliseconds since 1970 that is meant by a number, from now or from then; `nil` if no `Int` can hold it.
  func deadline(_ number: Int, isRelative: Bool) -> Int? {
    let (milliseconds, isTooLarge) = number.multipliedReportingOverflow(by: rawValue)
    let start = isRelative ? currentTime() : 0
    let (deadline, isTooLate) = start.addingReportingOverflow(milliseconds)
    return isTooLarge || isTooLate ? nil : deadline
  }

  func rounded(_ milliseconds: Int) -> Int { (milliseconds + rawValue / 2) / rawValue }
}
