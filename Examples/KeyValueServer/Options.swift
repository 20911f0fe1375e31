/// The command line.
struct Options: Sendable {
  var host = "127.0.0.1"
  var port = 6390
  var appendOnlyFile: String?
  private var askedPolicy: SyncPolicy?
  /// How long a key or a value may be.
  var bulkLimit = 512 << 20
  var showsHelp = false

  static let help = """
    usage: kv-server [options]

      --host HOST              name or address to listen on (127.0.0.1)
      --port PORT              port to listen on, 0 for any free one (6390)
      --appendonly FILE        write each change to this file, and load it at the start (keep nothing)
      --appendfsync always     answer when the changes are on the device
                    everysec   bring them there each second (the default)
                    no         leave that to the system
      --proto-max-bulk-len N   how many bytes a key or a value may have (536870912)
      --help                   show this
    """

  init(_ arguments: some Sequence<String>) throws(UsageError) {
    var rest = arguments.makeIterator()
    while let argument = rest.next() {
      let parts = argument.split(separator: "=", maxSplits: 1).map(String.init)
      let name = parts.first ?? ""
      let inline = parts.count == 2 ? parts[1] : nil
      switch name {
      case "--help", "-h":
        guard inline == nil else { throw UsageError("\(name) takes no value") }
        showsHelp = true
      case "--host", "--port", "--appendonly", "--appendfsync", "--proto-max-bulk-len":
        guard let value = inline ?? rest.next() else { throw UsageError("\(name) needs a value") }
        try set(name, value)
      default:
        throw UsageError("unknown option '\(argument)'")
      }
    }
    if askedPolicy != nil, appendOnlyFile == nil {
      throw UsageError("--appendfsync is for --appendonly")
    }
  }

  var syncPolicy: SyncPolicy { askedPolicy ?? .everySecond }

  private mutating func set(_ name: String, _ value: String) throws(UsageError) {
    switch name {
    case "--host":
      host = value
    case "--port":
      port = try number(name, value, in: 0...65_535)
    case "--appendonly":
      guard !value.isEmpty else { throw UsageError("--appendonly must be the path of a file") }
      appendOnlyFile = value
    case "--appendfsync":
      guard let policy = SyncPolicy(rawValue: value) else {
        throw UsageError("--appendfsync must be always, everysec or no, not '\(value)'")
      }
      askedPolicy = policy
    default:
      bulkLimit = try number(name, value, in: 1...(512 << 20))
    }
  }

  private func number(
    _ name: String, _ value: String, in range: ClosedRange<Int>
  ) throws(UsageError) -> Int {
    guard let number = Int(value), range.contains(number) else {
      throw UsageError(
        "\(name) must be a number from \(range.lowerBound) to \(range.upperBound), not '\(value)'")
    }
    return number
  }
}

/// A command line that makes no sense.
struct UsageError: Error, CustomStringConvertible {
  let description: String

  init(_ description: String) { self.description = description }
}
