// The README's examples, compiled. ReadmeTests checks that they are the same.

import Foundation
import Synchronization
import UV
import UVOperations

func echoServer() async throws {
  try await TCPListener.withListener(on: .loopback(port: 7007)) { listener in
    print("listening on \(listener.localAddress)")
    try await listener.serve { stream in
      for try await bytes in stream { try await stream.write(bytes) }
    }
  }
}

func oneEcho(of stream: TCPStream) async throws {
  let queue = OperationQueue()
  let receive = ReadOperation(from: stream)
  let send = WriteOperation(try receive.output ?? [], to: stream)
  send.addDependency(receive)
  queue.add(receive, send)
  try await send.value
}

func lineServer(port: Int) async throws {
  var options = TCPListener.Options()
  options.stream.idleTimeout = .seconds(60)
  try await TCPListener.withListener(on: .loopback(port: port), options: options) { listener in
    let serving = Task {
      try await listener.serve(maxConnections: 10_000, gracePeriod: .seconds(5)) { stream in
        for try await line in stream.lines(upTo: 1_000) {
          try await stream.write("you said \(line)\n")
        }
      }
    }
    _ = try await listener.loop.waitUntilSignal(.interrupt, .terminate)
    serving.cancel()
    _ = await serving.result
  }
}

func ask(port: Int) async throws -> String? {
  let answer = try await TCPStream.withConnection(
    to: "localhost", port: port, timeout: .seconds(3)
  ) { stream in
    try await stream.write("hello\n")
    return try await stream.readLine()
  }
  return answer
}

func chain(port: Int) async throws -> [UInt8]? {
  let queue = OperationQueue()
  let connect = ConnectOperation(to: "localhost", port: port)
  let send = WriteOperation("hello\n", to: try connect.output)
  let receive = ReadOperation(from: try connect.output)
  connect.timeout = .seconds(3)
  let close = CloseOperation(try connect.output)
  send.addDependency(connect)
  receive.addDependency(send)
  close.addDependency(receive)
  close.startsAfterFailedDependencies = true
  queue.add(connect, send, receive, close)
  let answer = try await receive.value
  return answer
}

func timers(on loop: EventLoop, _ stream: TCPStream) async throws -> String? {
  let queue = OperationQueue()
  try await loop.sleep(for: .milliseconds(20))
  for await tick in loop.every(.milliseconds(5)) where tick > 3 { break }
  let words = try await withTimeout(.seconds(3)) { try await stream.readLine() }
  let pause = TimerOperation(after: .milliseconds(20), on: loop)
  try await queue.run(pause)
  let ticks = try loop.schedule(every: .seconds(1)) { timer in print("tick") }
  ticks.cancel()
  return words
}

struct Digest {
  var sum: UInt8 = 0
  mutating func update(_ bytes: [UInt8]) { sum = bytes.reduce(sum, &+) }
}

func files(_ digest: inout Digest) async throws -> [UInt8] {
  let settings = try await FileSystem.readFile(at: "settings.json")
  try await FileSystem.withFile(at: "in.log") { file in
    for try await chunk in file.chunks(of: 65_536) { digest.update(chunk) }
  }
  try await FileSystem.copyFile(from: "in.log", to: "out.log", keepingTimes: true) { progress in
    print("\(progress.copied) of \(progress.total) bytes")
  }
  return settings
}

func fileChain() {
  let queue = OperationQueue()
  let open = OpenFileOperation("in.log")
  let read = ReadFileOperation(from: try open.output, upTo: 4096)
  let write = WriteFileOperation(try read.output, to: "head.log")
  let close = CloseFileOperation(try open.output)
  read.addDependency(open)
  write.addDependency(read)
  close.addDependency(open)
  close.addDependency(write)
  close.startsAfterFailedDependencies = true
  let rename = TaskOperation { try await FileSystem.rename("head.log", to: "old.log") }
  rename.addDependency(write)
  queue.add(open, read, write, close, rename)
}

func lookUp(_ names: [String]) async throws {
  let queue = OperationQueue()
  let lookUps = names.map { ResolveOperation($0, port: 80) }
  for await result in queue.results(of: lookUps) { print(try result.get()) }
  let addresses = ResolveOperation("example.com", port: 80)
  let count = addresses.map { $0.count }
  queue.add(addresses, count)  // Both: each is an operation like any other.
}

struct Sensor: Sendable {
  func read(_ body: @escaping @Sendable (Int) -> Void) { DispatchQueue.global().async { body(21) } }
}

private let sensor = Sensor()

final class Measure: ResultOperation<Int>, @unchecked Sendable {
  override func main() { sensor.read { self.finish(returning: $0) } }
}

func mainLoop() {
  let queue = OperationQueue(on: .main)
  let pause = TimerOperation(after: .milliseconds(20), on: .main)
  pause.whenFinished { EventLoop.main.stop() }
  queue.add(pause)
  EventLoop.main.run()
}

actor Session {
  let loop: EventLoop
  nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
  init(on loop: EventLoop) { self.loop = loop }

  func isOnLoop() -> Bool { loop.isCurrent }
}
