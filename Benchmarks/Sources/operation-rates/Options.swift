/// The command line.
struct Options {
  private(set) var rounds = 5
  private(set) var operations = 100_000
  private(set) var only: String?
  private(set) var record: String?
  private(set) var showsHelp = false

  static let help = """
    usage: operation-rates [option]...

      --rounds N        runs of each case, in turn with the others (5)
      --operations N    operations in a run; a fifth where there is one at a time (100000)
      --only TEXT       leave out cases without TEXT in their name, for profilers
      --record FILE     append the rates of each round, in lines for benchmark-report
      --help            show this
    """

  init(_ arguments: some Sequence<String>) throws(UsageError) {
    var rest = arguments.makeIterator()
    while let name = rest.next() {
      switch name {
      case "--help": showsHelp = true
      case "--record":
        guard let path = rest.next() else { throw UsageError(description: "--record takes a path") }
        record = path
      case "--rounds": rounds = try Options.count(name, rest.next(), upTo: 10_000)
      case "--operations": operations = try Options.count(name, rest.next(), upTo: 1_000_000_000)
      case "--only":
        guard let text = rest.next() else { throw UsageError(description: "--only takes a text") }
        only = text
      default: throw UsageError(description: "unknown option '\(name)'")
      }
    }
  }

  private static func count(
    _ name: String, _ value: String?, upTo limit: Int
  ) throws(UsageError) -> Int {
    guard let count = value.flatMap({ Int($0) }), (1...limit).contains(count) else {
      throw UsageError(description: "\(name) takes a whole number from 1 to \(limit)")
    }
    return count
  }
}

/// A command line that makes no sense.
struct UsageError: Error, CustomStringConvertible {
  let description: String
}
