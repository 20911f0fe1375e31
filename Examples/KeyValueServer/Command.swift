/// What the server can be asked to do.
final class Command: Sendable {
  /// Which arguments are keys.
  enum Keys { case none, first, all, everySecond }

  typealias Body = @Sendable (Session, Arguments) throws -> Void

  let name: String
  /// How many arguments it has, its name included; if negative, at least as many.
  let arity: Int
  let keys: Keys
  let run: Body

  init(_ name: String, _ arity: Int, _ keys: Keys, _ run: @escaping Body) {
    self.name = name
    self.arity = arity
    self.keys = keys
    self.run = run
  }

  func accepts(_ count: Int) -> Bool { arity < 0 ? count >= -arity : count == arity }

  static let all = [
    // Strings
    Command("get", 2, .first) { $0.get($1) },
    Command("set", -3, .first) { try $0.set($1) },
    Command("mget", -2, .all) { $0.getMany($1) },
    Command("mset", -3, .everySecond) { try $0.setMany($1) },
    Command("append", 3, .first) { try $0.append($1) },
    Command("strlen", 2, .first) { $0.length($1) },
    Command("incr", 2, .first) { try $0.increment($1) },
    Command("decr", 2, .first) { try $0.decrement($1) },
    Command("incrby", 3, .first) { try $0.incrementBy($1) },
    Command("decrby", 3, .first) { try $0.decrementBy($1) },
    // Keys
    Command("del", -2, .all) { $0.delete($1) },
    Command("exists", -2, .all) { $0.exist($1) },
    Command("expire", 3, .first) { try $0.expire($1, .seconds, "expire") },
    Command("pexpire", 3, .first) { try $0.expire($1, .milliseconds, "pexpire") },
    Command("pexpireat", 3, .first) {
      try $0.expire($1, .milliseconds, isRelative: false, "pexpireat")
    },
    Command("ttl", 2, .first) { $0.timeToLive($1, .seconds) },
    Command("pttl", 2, .first) { $0.timeToLive($1, .milliseconds) },
    Command("persist", 2, .first) { $0.persist($1) },
    Command("keys", 2, .none) { $0.keys($1) },
    Command("dbsize", 1, .none) { session, _ in session.count() },
    Command("flushall", -1, .none) { try $0.removeAll($1) },
    // The server
    Command("ping", -1, .none) { try $0.ping($1) },
    Command("echo", 2, .none) { $0.echo($1) },
    Command("quit", -1, .none) { session, _ in session.quit() },
    Command("info", -1, .none) { $0.information($1) },
    Command("command", -1, .none) { try $0.command($1) },
    Command("config", -2, .none) { try $0.runSubcommand(of: "config", $1) },
    Command("client", -2, .none) { try $0.runSubcommand(of: "client", $1) },
  ]

  /// What the last three can be asked for; the arity includes both names.
  static let subcommands = [
    Command("command|count", 2, .none) { session, _ in session.countCommands() },
    Command("command|docs", -2, .none) { session, _ in session.replies.array(of: 0) },
    Command("config|get", -3, .none) { $0.configuration($1) },
    Command("client|id", 2, .none) { session, _ in session.clientNumber() },
    Command("client|getname", 2, .none) { session, _ in session.clientName() },
    Command("client|setname", 3, .none) { try $0.setClientName($1) },
    // What library the client is made with, which nobody here asks for.
    Command("client|setinfo", 4, .none) { session, _ in session.replies.simple("OK") },
  ]

  /// The command of that name, in small or capital letters.
  static func named(_ name: Bytes) -> Command? { CommandName(name).flatMap { byName[$0] } }

  private static let byName = Dictionary(
    uniqueKeysWithValues: all.map { command in
      (Array(command.name.utf8).withUnsafeBytes { CommandName($0)! }, command)
    })
}

/// The letters of a command's name in two words, so that looking one up needs no memory.
private struct CommandName: Hashable {
  private var low: UInt64 = 0
  private var high: UInt64 = 0

  /// `nil` if it cannot be one.
  init?(_ name: Bytes) {
    guard name.count <= 16 else { return nil }
    for byte in name {
      let letter = byte.lowercase
      guard (0x61...0x7A).contains(letter) else { return nil }
      high = high << 8 | low >> 56
      low = low << 8 | UInt64(letter)
    }
  }
}

/// Why a command was not carried out, as the client is told.
struct CommandError: Error, CustomStringConvertible {
  let description: String

  init(_ message: String) { description = message }

  static var syntax: CommandError { CommandError("ERR syntax error") }

  static var notAnInteger: CommandError {
    CommandError("ERR value is not an integer or out of range")
  }

  static func wrongCount(_ command: String) -> CommandError {
    CommandError("ERR wrong number of arguments for '\(command)' command")
  }

  static func invalidExpireTime(_ command: String) -> CommandError {
    CommandError("ERR invalid expire time in '\(command)' command")
  }

  static func unknownSubcommand(_ name: Bytes, of command: String) -> CommandError {
    CommandError(
      "ERR unknown subcommand '\(name.text(upTo: 128))'. Try \(command.uppercased()) HELP.")
  }

  static func unknown(_ arguments: Arguments) -> CommandError {
    var list = ""
    for index in 1..<max(1, arguments.count) where list.utf8.count < 128 {
      list += "'\(arguments[index].text(upTo: 128 - list.utf8.count))' "
    }
    let name = arguments[0].text(upTo: 128)
    return CommandError("ERR unknown command '\(name)', with args beginning with: \(list)")
  }
}
