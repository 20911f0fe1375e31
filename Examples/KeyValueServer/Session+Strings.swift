/// Commands about values.
extension Session {
  func get(_ arguments: Arguments) { replies.bulkOrNull(store.value(of: arguments[1])) }

  func set(_ arguments: Arguments) throws(CommandError) {
    let options = try SetOptions(arguments)
    let key = arguments[1]
    if let mustExist = options.mustExist, store.contains(key) != mustExist {
      return replies.null()
    }
    var deadline = options.deadline
    if options.keepsDeadline, case .until(let old) = store.lifetime(of: key) { deadline = old }
    store.set(key, to: Array(arguments[2]), until: deadline)
    server.log?.append {
      let (key, value) = (Array(key), Array(arguments[2]))
      // One command, and not two, so that a file that ends too early has no key that never expires.
      if let deadline {
        $0.command("SET", key, value, Array("PXAT".utf8), Array("\(deadline)".utf8))
      } else {
        $0.command("SET", key, value)
      }
    }
    replies.simple("OK")
  }

  func getMany(_ arguments: Arguments) {
    replies.array(of: arguments.count - 1)
    for index in 1..<arguments.count { replies.bulkOrNull(store.value(of: arguments[index])) }
  }

  func setMany(_ arguments: Arguments) throws(CommandError) {
    guard arguments.count % 2 == 1 else { throw .wrongCount("mset") }
    for index in stride(from: 1, to: arguments.count, by: 2) {
      store.set(arguments[index], to: Array(arguments[index + 1]))
    }
    server.log?.append { $0.command(arguments) }
    replies.simple("OK")
  }

  func length(_ arguments: Arguments) {
    replies.integer(store.value(of: arguments[1])?.count ?? 0)
  }

  func append(_ arguments: Arguments) throws(CommandError) {
    let (key, addition) = (arguments[1], arguments[2])
    let length = (store.value(of: key)?.count ?? 0) + addition.count
    guard length <= bulkLimit else {
      throw CommandError("ERR string exceeds maximum allowed size (proto-max-bulk-len)")
    }
    store.update(key) { $0.append(contentsOf: addition) }
    server.log?.append { $0.command(arguments) }
    replies.integer(length)
  }

  // MARK: Numbers

  func increment(_ arguments: Arguments) throws(CommandError) { try add(1, arguments) }

  func decrement(_ arguments: Arguments) throws(CommandError) { try add(-1, arguments) }

  func incrementBy(_ arguments: Arguments) throws(CommandError) {
    guard let amount = Int(arguments[2]) else { throw .notAnInteger }
    try add(amount, arguments)
  }

  func decrementBy(_ arguments: Arguments) throws(CommandError) {
    guard let amount = Int(arguments[2]) else { throw .notAnInteger }
    guard amount > .min else { throw CommandError("ERR decrement would overflow") }
    try add(-amount, arguments)
  }

  private func add(_ amount: Int, _ arguments: Arguments) throws(CommandError) {
    let key = arguments[1]
    let old = store.value(of: key).map { $0.withUnsafeBytes { Int($0) } } ?? 0
    guard let old else { throw .notAnInteger }
    let (sum, isTooLarge) = old.addingReportingOverflow(amount)
    guard !isTooLarge else { throw CommandError("ERR increment or decrement would overflow") }
    store.update(key) { $0 = Array("\(sum)".utf8) }
    server.log?.append { $0.command(arguments) }
    replies.integer(sum)
  }
}

/// What follows the value in `SET key value`.
private struct SetOptions {
  fileprivate enum Unit { case ex, px, exat, pxat }

  private(set) var mustExist: Bool?
  private(set) var keepsDeadline = false
  /// In milliseconds since 1970.
  private(set) var deadline: Int?

  init(_ arguments: Arguments) throws(CommandError) {
    var time: (unit: Unit, index: Int)?
    var index = 3
    while index < arguments.count {
      let option = arguments[index]
      if option.isWord("nx"), mustExist != true {
        mustExist = false
      } else if option.isWord("xx"), mustExist != false {
        mustExist = true
      } else if option.isWord("keepttl"), time == nil {
        keepsDeadline = true
      } else if let unit = Unit(option), time?.unit ?? unit == unit, !keepsDeadline,
        index + 1 < arguments.count
      {
        index += 1
        time = (unit, index)
      } else {
        throw .syntax
      }
      index += 1
    }
    // A mistake in the words comes before one in the number.
    if let time { deadline = try time.unit.deadline(arguments[time.index]) }
  }
}

extension SetOptions.Unit {
  fileprivate init?(_ option: Bytes) {
    if option.isWord("ex") {
      self = .ex
    } else if option.isWord("px") {
      self = .px
    } else if option.isWord("exat") {
      self = .exat
    } else if option.isWord("pxat") {
      self = .pxat
    } else {
      return nil
    }
  }

  fileprivate func deadline(_ text: Bytes) throws(CommandError) -> Int {
    guard let number = Int(text) else { throw .notAnInteger }
    let unit: TimeUnit = self == .ex || self == .exat ? .seconds : .milliseconds
    let isRelative = self == .ex || self == .px
    guard number > 0, let deadline = unit.deadline(number, isRelative: isRelative) else {
      throw .invalidExpireTime("set")
    }
    return deadline
  }
}
