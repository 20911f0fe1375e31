/// The command line.
struct Options: Sendable {
  private(set) var mode = ""
  private(set) var count: Int?
  private(set) var showsHelp = false

  static var help: String {
    """
    usage: loop-rates MODE [option]...

      --count N  timers, jobs, hops or connections (1000000; 200000 hops, 20000 connections)
      --help     show this

    modes: \(modes.map(\.name).joined(separator: " "))
    """
  }

  init(_ arguments: some Sequence<String>) throws(UsageError) {
    var rest = arguments.makeIterator()
    while let name = rest.next() {
      switch name {
      case "--help": showsHelp = true
      case "--count":
        guard let value = rest.next().flatMap({ Int($0) }), value > 0 else {
          throw UsageError(description: "\(name) takes a whole number, at least 1")
        }
        count = value
      default:
        guard mode.isEmpty else { throw UsageError(description: "unknown option '\(name)'") }
        mode = name
      }
    }
    if !showsHelp, mode.isEmpty { throw UsageError(description: "a mode is needed") }
  }
}

/// A command line that makes no sense.
struct UsageError: Error, CustomStringConvertible {
  let description: String
}
