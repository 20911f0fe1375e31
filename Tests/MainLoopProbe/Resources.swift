import Foundation
import Glibc
import TestSupport
import UV

/// Threads and descriptors, which can only be counted in a process where nothing else runs.
enum Resources: String {
  case loopsLeaveNeitherThreadsNorDescriptors
  case aChildInheritsNoDescriptors
  case aLoopWithoutDescriptorsIsAnError

  func run() throws {
    switch self {
    case .loopsLeaveNeitherThreadsNorDescriptors: try loopsLeaveNothing()
    case .aChildInheritsNoDescriptors: try childInheritsNothing()
    case .aLoopWithoutDescriptorsIsAnError: try withoutDescriptors()
    }
  }
}

private func loopsLeaveNothing() throws {
  try EventLoop().shutdownAndWait()  // What the libraries open once is open now.
  let descriptors = try count("fd")
  for number in 0..<100 {
    let loop = try EventLoop()
    try loop.schedule(after: .seconds(3_600)) {}
    if number.isMultiple(of: 2) { loop.shutdownAndWait() }  // The others are dropped.
  }
  try runUntil {
    try count("fd") <= descriptors + 20 && loopThreads() == 0
  }
  // The main loop that waits has a few of its own, whatever the number of the others.
}

private func childInheritsNothing() throws {
  // What this process has inherited itself is not ours.
  let inherited = Set(
    try String(decoding: listDescriptors(), as: UTF8.self).split(separator: "\n").map(target))
  let loop = try EventLoop()
  let listener = try TCPListener(on: .loopback(port: 0), loop: loop)
  let listing = String(decoding: try listDescriptors(), as: UTF8.self)
  check(listing.contains("/proc/"), "ls has listed: \(listing)")
  for line in listing.split(separator: "\n") where !inherited.contains(target(line)) {
    for kind in ["socket:", "eventpoll", "eventfd"] {
      check(!line.contains(kind), "the child has no \(kind):\n\(listing)")
    }
  }
  withExtendedLifetime(listener) {}
  loop.shutdownAndWait()
}

private func target(_ line: Substring) -> Substring {
  line.split(separator: " ").last ?? ""
}

/// What a child process says about its own descriptors.
private func listDescriptors() throws -> Data {
  let pipe = Pipe()
  // Not Foundation's Process, which closes everything in the child by itself.
  var actions = posix_spawn_file_actions_t()
  posix_spawn_file_actions_init(&actions)
  defer { posix_spawn_file_actions_destroy(&actions) }
  posix_spawn_file_actions_adddup2(&actions, pipe.fileHandleForWriting.fileDescriptor, 1)
  var child = pid_t()
  var arguments = ["ls", "-l", "/proc/self/fd"].map { (word: String) in strdup(word) }
  defer { for argument in arguments { free(argument) } }
  arguments.append(nil)
  check(posix_spawn(&child, "/bin/ls", &actions, nil, arguments, environ) == 0, "ls was started")
  try pipe.fileHandleForWriting.close()
  let listing = pipe.fileHandleForReading.readDataToEndOfFile()
  var status: CInt = 0
  waitpid(child, &status, 0)
  return listing
}

private func withoutDescriptors() throws {
  let limit = try setLimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), to: 3)
  do {
    _ = try EventLoop()
    check(false, "a loop needs descriptors")
  } catch {
    check(error.code == .tooManyOpenFiles, "the error names the cause: \(error)")
  }
  _ = try setLimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), to: limit)
  try EventLoop().shutdownAndWait()
}

private func setLimit(_ resource: __rlimit_resource_t, to value: UInt) throws -> UInt {
  var limit = rlimit()
  getrlimit(resource, &limit)
  let before = limit.rlim_cur
  limit.rlim_cur = value
  check(setrlimit(resource, &limit) == 0, "the limit can be set")
  return before
}

private func count(_ kind: String) throws -> Int {
  try FileManager.default.contentsOfDirectory(atPath: "/proc/self/\(kind)").count
}

private func loopThreads() throws -> Int {
  try FileManager.default.contentsOfDirectory(atPath: "/proc/self/task").filter {
    // One that is gone meanwhile has no name.
    (try? String(contentsOfFile: "/proc/self/task/\($0)/comm", encoding: .utf8)) == "uv-loop\n"
  }.count
}

/// Runs the main loop until `condition` holds.
private func runUntil(_ condition: @escaping @Sendable () throws -> Bool) throws {
  try EventLoop.main.schedule(every: .milliseconds(1)) { timer in
    guard (try? condition()) == true else { return }
    timer.cancel()
    EventLoop.main.stop()
  }
  EventLoop.main.run()
}
