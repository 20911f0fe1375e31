import Foundation
import TestSupport
import Testing

/// Somebody else's package that depends on this one.
@Suite(.timeLimit(.minutes(5)))
struct ConsumerPackageTests {
  private static let manifest = """
    // swift-tools-version: 6.2
    import PackageDescription

    let package = Package(
      name: "consumer",
      dependencies: [.package(name: "swift-uv", path: "ROOT")],
      targets: [
        .executableTarget(
          name: "consumer",
          dependencies: [
            .product(name: "UV", package: "swift-uv"),
            .product(name: "UVOperations", package: "swift-uv"),
          ])
      ]
    )
    """

  private static let program = """
    import Foundation
    import UV
    import UVOperations

    func greet() async throws {
      try await TCPListener.withListener(on: .loopback(port: 0)) { listener in
        let server = Task {
          let stream = try await listener.accept()
          for try await bytes in stream { try await stream.write(bytes) }
          await stream.close()
        }
        let queue = OperationQueue()
        let connect = ConnectOperation(to: listener.localAddress)
        let write = WriteOperation("hello from a consumer", to: try connect.output)
        let read = ReadOperation(from: try connect.output)
        let close = CloseOperation(try connect.output)
        write.addDependency(connect)
        read.addDependency(write)
        close.addDependency(read)
        queue.add(connect, write, read, close)
        print(String(decoding: try await read.value ?? [], as: UTF8.self))
        try await close.value
        try await server.value
      }
    }

    try await greet()
    try await useSubclasses()
    """

  /// A subclass of each class that is open, with every method that is.
  private static let subclasses = """
    import Foundation
    import UVOperations

    final class Measure: AsynchronousOperation, @unchecked Sendable {
      private(set) var reading = 0

      override func main() {
        DispatchQueue.global().async {
          self.reading = 21
          self.finish()
        }
      }

      override func didCancel() { reading = -1 }
      override func releaseResources() {}
      override func finish() { super.finish() }
    }

    class Sum: ResultOperation<Int>, @unchecked Sendable {
      let summands: OperationInput<[Int]>

      init(_ summands: @autoclosure @escaping @Sendable () throws -> [Int]) {
        self.summands = OperationInput(summands)
      }

      override func main() { finish(Result { try summands.take().reduce(0, +) }) }
      override func didCancel() {}
      override func releaseResources() { summands.release() }
    }

    final class Twice: Sum, @unchecked Sendable {
      override func main() { finish(Result { 2 * (try summands.take().reduce(0, +)) }) }
    }

    func useSubclasses() async throws {
      let measure = Measure()
      let sum = Sum([measure.reading, 21])
      let twice = Twice([try sum.output])
      sum.addDependency(measure)
      twice.addDependency(sum)
      let queue = OperationQueue()
      queue.add(twice, sum, measure)
      print(try await twice.value)
    }
    """

  @Test func aPackageThatDependsOnOursBuildsWithoutWarningsAndRuns() async throws {
    let swift = try #require(pathOfSwift, "there is no `swift` in PATH")
    let files = FileManager.default
    let package = files.temporaryDirectory.appendingPathComponent("consumer-\(UUID())")
    let sources = package.appendingPathComponent("Sources/consumer")
    try files.createDirectory(at: sources, withIntermediateDirectories: true)
    defer { try? files.removeItem(at: package) }
    let root = URL(fileURLWithPath: #filePath)
      .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    try Data(Self.manifest.replacingOccurrences(of: "ROOT", with: root.path).utf8)
      .write(to: package.appendingPathComponent("Package.swift"))
    try Data(Self.program.utf8).write(to: sources.appendingPathComponent("main.swift"))
    try Data(Self.subclasses.utf8).write(to: sources.appendingPathComponent("Subclasses.swift"))
    // A scratch path of its own, because the one of the running build is locked.
    let arguments = [
      "run", "--package-path", package.path, "--scratch-path", package.path + "/.build",
    ]
    let log = package.appendingPathComponent("log")
    let result = try await run(swift, arguments, errors: log)
    let errors = try String(contentsOf: log, encoding: .utf8)
    #expect(result.status == 0, "\(errors)")
    #expect(result.output == "hello from a consumer\n84\n")
    #expect(!errors.contains("warning:"), "\(errors)")
  }

  private var pathOfSwift: String? {
    let path = ProcessInfo.processInfo.environment["PATH"] ?? ""
    return path.split(separator: ":").map { "\($0)/swift" }
      .first { FileManager.default.isExecutableFile(atPath: $0) }
  }

  private func run(
    _ program: String, _ arguments: [String], errors: URL
  ) async throws -> (status: Int32, output: String) {
    try Data().write(to: errors)
    let process = Process()
    process.executableURL = URL(fileURLWithPath: program)
    process.arguments = arguments
    process.standardInput = FileHandle.nullDevice
    let errors = try FileHandle(forWritingTo: errors)
    process.standardError = errors
    let pipe = Pipe()
    process.standardOutput = pipe
    let status = Guarded<Int32?>(nil)
    process.terminationHandler = { process in
      let code = process.terminationStatus
      status.update { $0 = code }
    }
    try process.run()
    await eventually("the program ends") { status.value != nil }
    if status.value == nil { process.terminate() }
    // Short enough for the pipe to have held it.
    let output = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    try pipe.fileHandleForReading.close()
    try errors.close()
    return (try #require(status.value), output)
  }
}
