/// Commands about the server and the connection.
extension Session {
  func ping(_ arguments: Arguments) throws(CommandError) {
    switch arguments.count {
    case 1: replies.simple("PONG")
    case 2: replies.bulk(arguments[1])
    default: throw .wrongCount("ping")
    }
  }

  func echo(_ arguments: Arguments) { replies.bulk(arguments[1]) }

  /// Carries out what the second argument names.
  func runSubcommand(of command: String, _ arguments: Arguments) throws {
    let name = "\(command)|\(arguments[1].text(upTo: 128).lowercased())"
    guard let subcommand = Command.subcommands.first(where: { $0.name == name }) else {
      throw CommandError.unknownSubcommand(arguments[1], of: command)
    }
    guard subcommand.accepts(arguments.count) else { throw CommandError.wrongCount(name) }
    try subcommand.run(self, arguments)
  }

  // MARK: CLIENT

  func clientNumber() { replies.integer(number) }

  func clientName() { replies.bulkOrNull(name.isEmpty ? nil : name) }

  func setClientName(_ arguments: Arguments) throws(CommandError) {
    guard arguments[2].allSatisfy({ (0x21...0x7E).contains($0) }) else {
      throw CommandError(
        "ERR Client names cannot contain spaces, newlines or special characters.")
    }
    name = Array(arguments[2])
    replies.simple("OK")
  }

  // MARK: COMMAND

  func command(_ arguments: Arguments) throws {
    if arguments.count == 1 {
      describeCommands()
    } else {
      try runSubcommand(of: "command", arguments)
    }
  }

  func countCommands() { replies.integer(Command.all.count) }

  private func describeCommands() {
    replies.array(of: Command.all.count)
    for command in Command.all {
      let (first, last, step) =
        switch command.keys {
        case .none: (0, 0, 0)
        case .first: (1, 1, 1)
        case .all: (1, -1, 1)
        case .everySecond: (1, -1, 2)
        }
      replies.array(of: 6)
      replies.bulk(command.name)
      replies.integer(command.arity)
      replies.array(of: 0)
      for number in [first, last, step] { replies.integer(number) }
    }
  }

  // MARK: CONFIG GET

  func configuration(_ arguments: Arguments) {
    let found = parameters.filter { parameter in
      (2..<arguments.count).contains { GlobPattern(arguments[$0]).matches(parameter.name) }
    }
    replies.array(of: found.count * 2)
    for (name, value) in found {
      replies.bulk(name)
      replies.bulk(value)
    }
  }

  private var parameters: [(name: String, value: String)] {
    let options = server.options
    return [
      ("bind", options.host),
      ("port", "\(server.port)"),
      ("databases", "1"),
      ("maxmemory", "0"),
      ("save", ""),
      ("appendonly", options.appendOnlyFile == nil ? "no" : "yes"),
      ("appendfilename", options.appendOnlyFile ?? ""),
      ("appendfsync", options.syncPolicy.rawValue),
      ("proto-max-bulk-len", "\(options.bulkLimit)"),
    ]
  }

  // MARK: INFO

  func information(_ arguments: Arguments) {
    let isEverything = arguments.count == 1
    let asked = sections.filter { section in
      isEverything
        || (1..<arguments.count).contains {
          arguments[$0].isWord(section.word) || arguments[$0].isWord("all")
            || arguments[$0].isWord("everything") || arguments[$0].isWord("default")
        }
    }
    replies.bulk(asked.map { "# \($0.title)\r\n\($0.lines)" }.joined(separator: "\r\n"))
  }

  private var sections: [(word: StaticString, title: String, lines: String)] {
    let uptime = Int((ContinuousClock.now - server.start) / .seconds(1))
    let keys = store.count
    let keyspace = keys == 0 ? "" : "db0:keys=\(keys),expires=\(store.expiringCount)\r\n"
    return [
      (
        "server", "Server",
        "redis_version:7.0.0\r\nredis_mode:standalone\r\nserver_name:kv-server\r\n"
          + "tcp_port:\(server.port)\r\nuptime_in_seconds:\(uptime)\r\n"
      ),
      ("clients", "Clients", "connected_clients:\(server.clientCount)\r\n"),
      ("persistence", "Persistence", "aof_enabled:\(server.log == nil ? 0 : 1)\r\n"),
      ("stats", "Stats", "total_commands_processed:\(server.commandCount)\r\n"),
      ("keyspace", "Keyspace", keyspace),
    ]
  }
}
