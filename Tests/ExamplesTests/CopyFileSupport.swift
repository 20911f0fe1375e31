import Foundation
import TestSupport
import Testing
import UV

/// A directory of its own, in which `copy-file` runs.
struct CopyPlace {
  let path: String

  func of(_ name: String) -> String { "\(path)/\(name)" }

  /// What is there, sorted.
  var names: [String] {
    (try? FileManager.default.contentsOfDirectory(atPath: path).sorted()) ?? []
  }

  /// The size of a copy that has no name yet, which is in a file that begins with a dot.
  var unfinished: Int? {
    names.first { $0.hasPrefix(".") }.flatMap { status(of: $0).map { Int($0.st_size) } }
  }

  func status(of name: String) -> stat? {
    var status = stat()
    return stat(of(name), &status) == 0 ? status : nil
  }

  func bytes(of name: String) async throws -> [UInt8] {
    try await FileSystem.readFile(at: of(name))
  }

  func write(_ bytes: [UInt8], to name: String) async throws {
    try await FileSystem.writeFile(bytes, to: of(name))
  }

  /// Starts `copy-file`.
  func start(
    _ arguments: String..., shell: String? = nil, columns: UInt16? = nil
  ) throws -> ExampleProcess {
    try ExampleProcess("copy-file", arguments, in: path, shell: shell, columns: columns)
  }

  /// Runs `copy-file` to its end.
  func run(_ arguments: [String], shell: String? = nil) async throws -> ExampleProcess {
    let process = try ExampleProcess("copy-file", arguments, in: path, shell: shell)
    defer { process.send(SIGKILL) }
    _ = try await process.waitUntilExit()
    return process
  }

  func run(_ arguments: String...) async throws -> ExampleProcess { try await run(arguments) }
}

func withCopyPlace(_ body: (CopyPlace) async throws -> Void) async throws {
  let url = FileManager.default.temporaryDirectory.appendingPathComponent("copy-file-\(UUID())")
  try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
  defer { try? FileManager.default.removeItem(at: url) }
  try await body(CopyPlace(path: url.path))
}

/// A FIFO of which the test has both ends: opening it never waits, and it does not end before the test lets it.
final class Fifo {
  private let descriptor: CInt

  init(at path: String) throws {
    try #require(mkfifo(path, 0o600) == 0)
    descriptor = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC)
    try #require(descriptor >= 0)
  }

  deinit { close(descriptor) }

  /// Writes as many zeros, when there is room.
  func write(_ count: Int) async {
    var left = count
    let zeros = [UInt8](repeating: 0, count: min(count, 65_536))
    await eventually("the FIFO is read") {
      left -= max(0, Glibc.write(descriptor, zeros, min(left, zeros.count)))
      return left == 0
    }
  }

  /// What is in it now, at most `limit` bytes.
  func read(upTo limit: Int = 65_536) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: limit)
    let count = Glibc.read(descriptor, &bytes, limit)
    return Array(bytes.prefix(max(0, count)))
  }
}
