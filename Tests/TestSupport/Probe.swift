import Foundation

/// How a probe program ended.
public struct ProbeResult: Sendable {
  public let status: Int32
  public let diedOfSignal: Bool
  public let output: String

  public var passed: Bool { status == 0 && !diedOfSignal }
}

/// Runs a program of this package, built next to the tests, and returns how it ended.
public func runProbe(_ name: String, _ arguments: String...) async throws -> ProbeResult {
  let process = Process()
  process.executableURL = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
    .deletingLastPathComponent().appending(path: name)
  process.arguments = arguments
  let pipe = Pipe()
  process.standardOutput = pipe
  process.standardError = pipe
  try process.run()
  return await withCheckedContinuation { continuation in
    // A thread that may block: the test's own must not.
    Thread.detachNewThread {
      let output = pipe.fileHandleForReading.readDataToEndOfFile()
      try? pipe.fileHandleForReading.close()  // Foundation would keep it.
      process.waitUntilExit()
      continuation.resume(
        returning: ProbeResult(
          status: process.terminationStatus,
          diedOfSignal: process.terminationReason == .uncaughtSignal,
          output: String(decoding: output, as: UTF8.self)))
    }
  }
}
