/// The command line.
struct Options: Sendable {
  private(set) var mode = ""
  private(set) var directory = ""
  private(set) var bytes = 1 << 30
  private(set) var reads = 200_000
  private(set) var stats = 100_000
  private(set) var showsHelp = false

  static var help: String {
    """
    usage: file-rates MODE --directory DIRECTORY [option]...

      --directory DIRECTORY  where `file-rates-c prepare` has made the files
      --bytes N              size of the file, in whole MiB (1073741824)
      --reads N              random reads, in sixteens (200000)
      --stats N              calls for information, in sixteens (100000)
      --help                 show this

    modes: \(modes.map(\.name).joined(separator: " "))
    """
  }

  init(_ arguments: some Sequence<String>) throws(UsageError) {
    var rest = arguments.makeIterator()
    while let name = rest.next() {
      switch name {
      case "--help": showsHelp = true
      case "--directory":
        guard let path = rest.next() else { throw UsageError(description: "\(name) takes a path") }
        directory = path
      case "--bytes": bytes = try Options.count(name, rest.next(), of: chunkSize)
      case "--reads": reads = try Options.count(name, rest.next(), of: laneCount)
      case "--stats": stats = try Options.count(name, rest.next(), of: laneCount)
      default:
        guard mode.isEmpty else { throw UsageError(description: "unknown option '\(name)'") }
        mode = name
      }
    }
    if !showsHelp, mode.isEmpty || directory.isEmpty {
      throw UsageError(description: "a mode and --directory are needed")
    }
  }

  private static func count(
    _ name: String, _ value: String?, of unit: Int
  ) throws(UsageError) -> Int {
    guard let count = value.flatMap({ Int($0) }), count > 0, count.isMultiple(of: unit) else {
      throw UsageError(description: "\(name) takes a multiple of \(unit)")
    }
    return count
  }
}

/// A command line that makes no sense.
struct UsageError: Error, CustomStringConvertible {
  let description: String
}
