import Foundation
import Locking
import TestSupport
import Testing
import UV

/// A running example program, the one that was built with these tests.
final class ExampleProcess: Sendable {
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

  /// - Parameters:
  ///   - directory: Where it runs.
  ///   - shell: What a shell does instead of starting it right away; it has the program as `$0` and the arguments as `$@`.
  ///   - columns: Its output is a terminal of this width.
  init(
    _ program: String, _ arguments: [String], in directory: String? = nil, shell: String? = nil,
    columns: UInt16? = nil
  ) throws {
    let state = Guarded(State())
    let process = Process()
    let path = Self.path(of: program)
    process.executableURL = URL(fileURLWithPath: shell == nil ? path : "/bin/bash")
    process.arguments = (shell.map { ["-c", $0, path] } ?? []) + arguments
    if let directory { process.currentDirectoryURL = URL(fileURLWithPath: directory) }
    let output = try columns.map { try Ends(ofTerminalWith: $0) } ?? Ends(of: Pipe())
    let errors = Ends(of: Pipe())
    // The example uses `Mutex`, which the thread sanitizer does not see into: its reports would be false, and open descriptors.
    process.environment = ProcessInfo.processInfo.environment
      .merging(["TSAN_OPTIONS": "report_bugs=0"]) { $1 }
    process.standardInput = FileHandle.nullDevice
    process.standardOutput = output.writing
    process.standardError = errors.writing
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
    for (channel, ends) in [(Channel.output, output), (.errors, errors)] {
      try? ends.writing.close()
      // A thread of its own: reading blocks.
      Thread {
        // Not `availableData`, which traps when the other end of a terminal is closed.
        var bytes = [UInt8](repeating: 0, count: 65_536)
        while case let count = read(ends.reading.fileDescriptor, &bytes, bytes.count), count > 0 {
          let text = String(decoding: bytes[..<count], as: UTF8.self)
          state.update { $0.text[channel, default: ""] += text }
        }
        try? ends.reading.close()  // Foundation would keep it.
        state.update { $0.openChannels -= 1 }
      }.start()
    }
  }

  /// The program beside the running test program.
  private static func path(of name: String) -> String {
    let program = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
    // Some runners load the tests instead of being them; then it is beside what they loaded.
    let places = [program] + CommandLine.arguments.map { $0 }
    let candidates = places.compactMap { place in
      place.map { URL(fileURLWithPath: $0).deletingLastPathComponent().path + "/\(name)" }
    }
    return candidates.first { FileManager.default.isExecutableFile(atPath: $0) }
      ?? candidates[0]
  }

  // MARK: What it says

  func text(_ channel: Channel = .output) -> String { state.value.text[channel] ?? "" }

  /// The complete lines that it has written.
  func lines(_ channel: Channel = .output) -> [String] {
    text(channel).split(separator: "\n", omittingEmptySubsequences: false).dropLast().map(
      String.init)
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

/// The two ends of what a program writes to.
private struct Ends: @unchecked Sendable {
  // Unchecked: each end is used by one thread.
  let reading: FileHandle
  let writing: FileHandle

  init(of pipe: Pipe) {
    reading = pipe.fileHandleForReading
    writing = pipe.fileHandleForWriting
  }

  init(ofTerminalWith columns: UInt16) throws {
    var (near, far): (CInt, CInt) = (-1, -1)
    var size = winsize(ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0)
    try #require(openpty(&near, &far, nil, nil, &size) == 0)
    for descriptor in [near, far] { _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC) }
    reading = FileHandle(fileDescriptor: near, closeOnDealloc: true)
    writing = FileHandle(fileDescriptor: far, closeOnDealloc: true)
  }
}

/// A value behind a lock.
final class Guarded<Value: Sendable>: Sendable {
  private let guarded: Lock<Value>
  init(_ value: Value) { guarded = Lock(value) }
  var value: Value { guarded.withLock { $0 } }
  func update(_ body: (inout Value) -> Void) { guarded.withLock { body(&$0) } }
}
