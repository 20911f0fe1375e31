import Foundation
import Locking
import TestSupport
import Testing
import UV

/// A running `echo-server`, the one that was built with these tests.
final class EchoServerProcess: Sendable {
  struct Exit: Equatable {
    var status: Int32
    var isSignal = false
  }

  private struct State {
    var exit: Exit?
    var text: [Channel: String] = [:]
    var openChannels = 2
  }

  enum Channel { case output, errors }

  let processID: Int32
  private let state: Guarded<State>

  /// - Parameter fileLimit: How many descriptors the server may have.
  init(_ arguments: [String], fileLimit: Int? = nil) throws {
    let state = Guarded(State())
    let process = Process()
    if let fileLimit {
      process.executableURL = URL(fileURLWithPath: "/bin/bash")
      process.arguments =
        ["-c", "ulimit -n \(fileLimit); exec \"$0\" \"$@\"", Self.path] + arguments
    } else {
      process.executableURL = URL(fileURLWithPath: Self.path)
      process.arguments = arguments
    }
    let pipes: [(Channel, Pipe)] = [(.output, Pipe()), (.errors, Pipe())]
    // The example uses `Mutex`, which the thread sanitizer does not see into: its reports would be false, and open descriptors.
    process.environment = ProcessInfo.processInfo.environment
      .merging(["TSAN_OPTIONS": "report_bugs=0"]) { $1 }
    process.standardInput = FileHandle.nullDevice
    process.standardOutput = pipes[0].1
    process.standardError = pipes[1].1
    process.terminationHandler = { process in
      let isSignal = process.terminationReason == .uncaughtSignal
      let exit = Exit(status: process.terminationStatus, isSignal: isSignal)
      state.update { $0.exit = exit }
    }
    // A process inherits the blocked signals of the thread that starts it, and dispatch's threads block them all.
    var none = sigset_t()
    var blocked = sigset_t()
    sigemptyset(&none)
    pthread_sigmask(SIG_SETMASK, &none, &blocked)
    defer { pthread_sigmask(SIG_SETMASK, &blocked, nil) }
    try process.run()
    processID = process.processIdentifier
    self.state = state
    for (channel, pipe) in pipes {
      // A thread of its own: reading blocks.
      Thread {
        while case let data = pipe.fileHandleForReading.availableData, !data.isEmpty {
          let text = String(decoding: data, as: UTF8.self)
          state.update { $0.text[channel, default: ""] += text }
        }
        try? pipe.fileHandleForReading.close()  // Foundation would keep it.
        state.update { $0.openChannels -= 1 }
      }.start()
    }
  }

  /// The server beside the running test program.
  private static var path: String {
    let program = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
    // Some runners load the tests instead of being them; then it is beside what they loaded.
    let places = [program] + CommandLine.arguments.map { $0 }
    let candidates = places.compactMap { place in
      place.map { URL(fileURLWithPath: $0).deletingLastPathComponent().path + "/echo-server" }
    }
    return candidates.first { FileManager.default.isExecutableFile(atPath: $0) }
      ?? candidates[0]
  }

  // MARK: What it says

  /// The complete lines that it has written.
  func lines(_ channel: Channel = .output) -> [String] {
    let text = state.value.text[channel] ?? ""
    return text.split(separator: "\n", omittingEmptySubsequences: false).dropLast().map(String.init)
  }

  /// How it ended, when all that it wrote is there too.
  var exit: Exit? {
    let state = state.value
    return state.openChannels == 0 ? state.exit : nil
  }

  func waitUntilExit() async throws -> Exit {
    await eventually { self.exit != nil }
    return try #require(exit)
  }

  /// The address in its first line.
  func waitUntilListening() async throws -> SocketAddress {
    await eventually { self.exit != nil || !self.lines().isEmpty }
    let line = lines().first ?? "nothing; errors: \(lines(.errors))"
    try #require(line.hasPrefix("listening on "), "the server says \(line)")
    return try SocketAddress(String(line.dropFirst("listening on ".count)))
  }

  // MARK: What it has

  var descriptorCount: Int {
    ((try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(processID)/fd")) ?? []).count
  }

  /// Its resident memory in bytes.
  var memory: Int {
    let status = (try? String(contentsOfFile: "/proc/\(processID)/status", encoding: .utf8)) ?? ""
    let line = status.split(separator: "\n").first { $0.hasPrefix("VmRSS:") }
    let kibibytes = line?.split(whereSeparator: { !$0.isNumber }).first.flatMap { Int($0) }
    return (kibibytes ?? 0) * 1_024
  }

  func send(_ signal: CInt) {
    // Not when it has ended, because its number may be another's by then.
    if state.value.exit == nil { kill(processID, signal) }
  }
}

/// Runs `body` with a server and a loop for its clients; the server ends with it.
func withEchoServer(
  _ arguments: [String] = [], fileLimit: Int? = nil,
  _ body: (EchoServerProcess, SocketAddress, EventLoop) async throws -> Void
) async throws {
  let server = try EchoServerProcess(["--port", "0"] + arguments, fileLimit: fileLimit)
  defer { server.send(SIGKILL) }
  let address = try await server.waitUntilListening()
  let loop = try EventLoop()
  let result: Result<Void, any Error>
  do { result = .success(try await body(server, address, loop)) } catch { result = .failure(error) }
  await loop.shutdown()
  #expect(loop.statistics.handles == 0 && loop.statistics.requests == 0)
  try result.get()
}

/// A value behind a lock.
final class Guarded<Value: Sendable>: Sendable {
  private let guarded: Lock<Value>
  init(_ value: Value) { guarded = Lock(value) }
  var value: Value { guarded.withLock { $0 } }
  func update(_ body: (inout Value) -> Void) { guarded.withLock { body(&$0) } }
}

extension TCPStream {
  /// Sends `bytes` and returns as many as come back.
  func echo(_ bytes: [UInt8]) async throws -> [UInt8] {
    try await write(bytes)
    var echo: [UInt8] = []
    while echo.count < bytes.count, let part = try await read() { echo += part }
    return echo
  }
}
