// An echo server that brings its own memory for what it reads: `echo-server-buffer --port PORT`.

import Glibc
import UV

let arguments = CommandLine.arguments
guard arguments.count == 3, arguments[1] == "--port", let port = Int(arguments[2]) else {
  print("usage: echo-server-buffer --port PORT")
  exit(EX_USAGE)
}

@Sendable func echo(_ stream: TCPStream) async throws {
  let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: 65_536, alignment: 64)
  defer { memory.deallocate() }
  while let count = try await stream.read(into: memory) {
    try await stream.write(UnsafeRawBufferPointer(rebasing: memory[..<count]).bytes)
  }
}

@Sendable func serve() async throws {
  try await TCPListener.withListener(on: .loopback(port: port)) { listener in
    let serving = Task { try await listener.serve { try await echo($0) } }
    print("listening on \(listener.localAddress)")
    fflush(nil)
    _ = try await listener.loop.waitUntilSignal(.interrupt, .terminate)
    serving.cancel()
    _ = await serving.result
  }
  EventLoop.main.stop()
}

// Not an async main: Valgrind does not survive what that does to the main thread.
let server = Task { try await serve() }
EventLoop.main.run()
