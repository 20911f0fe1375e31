import UV

/// The command line.
struct Options {
  enum Mode: String {
    /// Every accept, read, write and close is an `Operation`.
    case operations
    /// Every connection is a task.
    case async
  }

  enum Queue: String {
    /// An operation queue on the main loop: no thread hop.
    case loop
    /// An ordinary operation queue.
    case dispatch
    /// No queue: operations are started directly, on the loop's thread.
    case direct
  }

  var host = "127.0.0.1"
  var port = 7007
  var mode = Mode.operations
  private var askedQueue: Queue?
  private var askedLoops: Int?
  var maxConnections: Int?
  var idleTimeout: Duration?
  var grace = Duration.seconds(5)
  var showsStatistics = false
  var showsHelp = false

  static let help = """
    usage: echo-server [options]

      --host HOST            name or address to listen on (127.0.0.1)
      --port PORT            port to listen on, 0 for any free one (7007)
      --mode operations      every accept, read and write is an Operation (the default)
             async           every connection is a task, with async/await
      --queue loop           operations run in a queue on the main loop (the default)
              dispatch       operations run in an ordinary queue
              direct         operations are started without a queue
      --loops N              with async: so many event loops, a thread each (1)
      --max-connections N    let further clients wait (no limit)
      --idle-timeout SECONDS close a connection that is silent for so long (never)
      --grace SECONDS        how long busy connections may go on after Ctrl-C (5)
      --stats                show connections, messages and bytes each second
      --help                 show this
    """

  init(_ arguments: some Sequence<String>) throws(UsageError) {
    var rest = arguments.makeIterator()
    while let argument = rest.next() {
      let parts = argument.split(separator: "=", maxSplits: 1).map(String.init)
      let name = parts.first ?? ""
      let inline = parts.count == 2 ? parts[1] : nil
      switch name {
      case "--help", "-h", "--stats":
        guard inline == nil else { throw UsageError("\(name) takes no value") }
        if name == "--stats" { showsStatistics = true } else { showsHelp = true }
      case "--host", "--port", "--mode", "--queue", "--loops", "--max-connections",
        "--idle-timeout", "--grace":
        guard let value = inline ?? rest.next() else { throw UsageError("\(name) needs a value") }
        try set(name, value)
      default:
        throw UsageError("unknown option '\(argument)'")
      }
    }
    if mode == .async, askedQueue != nil { throw UsageError("--queue is for --mode operations") }
    if mode == .operations, askedLoops != nil { throw UsageError("--loops is for --mode async") }
  }

  var queue: Queue { askedQueue ?? .loop }
  var loops: Int { askedLoops ?? 1 }

  private mutating func set(_ name: String, _ value: String) throws(UsageError) {
    switch name {
    case "--host":
      host = value
    case "--port":
      port = try number(name, value, in: 0...65_535)
    case "--mode":
      guard let mode = Mode(rawValue: value) else {
        throw UsageError("--mode must be operations or async, not '\(value)'")
      }
      self.mode = mode
    case "--queue":
      guard let queue = Queue(rawValue: value) else {
        throw UsageError("--queue must be loop, dispatch or direct, not '\(value)'")
      }
      askedQueue = queue
    case "--loops":
      askedLoops = try number(name, value, in: 1...1_024)
    case "--max-connections":
      maxConnections = try number(name, value, in: 1...Int.max)
    case "--idle-timeout":
      idleTimeout = try seconds(name, value, atLeast: 0.001)
    default:
      grace = try seconds(name, value, atLeast: 0)
    }
  }

  private func number(
    _ name: String, _ value: String, in range: ClosedRange<Int>
  ) throws(UsageError) -> Int {
    guard let number = Int(value), range.contains(number) else {
      let limit =
        range.upperBound == .max
        ? "\(range.lowerBound) or more" : "from \(range.lowerBound) to \(range.upperBound)"
      throw UsageError("\(name) must be a number, \(limit), not '\(value)'")
    }
    return number
  }

  private func seconds(
    _ name: String, _ value: String, atLeast least: Double
  ) throws(UsageError) -> Duration {
    guard let seconds = Double(value), seconds >= least, seconds <= 1e9 else {
      throw UsageError("\(name) must be a number of seconds, not '\(value)'")
    }
    return .seconds(seconds)
  }
}

/// A command line that makes no sense.
struct UsageError: Error, CustomStringConvertible {
  let description: String

  init(_ description: String) { self.description = description }
}
