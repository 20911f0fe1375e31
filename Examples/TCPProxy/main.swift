// Forwards TCP connections, both ways: `swift run tcp-proxy LISTEN TARGET`.

import Glibc
import UV

let help = """
  usage: tcp-proxy LISTEN TARGET

  Forwards every connection to LISTEN, an address and port, to TARGET, a host and port: tcp-proxy 127.0.0.1:8080 example.com:80
  """

let arguments = CommandLine.arguments.dropFirst()
if arguments == ["--help"] {
  print(help)
  exit(EXIT_SUCCESS)
}
guard arguments.count == 2, let target = Endpoint(arguments[2]) else {
  end("there must be an address to listen on and a target (--help says more)", status: EX_USAGE)
}
let address = parseAddress(arguments[1])

// Watched before anybody is told that the proxy runs, and may ask it to stop.
let signals = try EventLoop.shared.signals(.interrupt, .terminate)
do {
  try await TCPListener.withListener(on: address) { listener in
    let serving = Task {
      try await listener.serve { client in try await forward(client, to: target) }
    }
    print("listening on \(listener.localAddress), forwarding to \(target)")
    fflush(nil)
    Task {
      for await _ in signals {
        if serving.isCancelled { exit(130) }  // As a shell reports a program that Ctrl-C ended.
        serving.cancel()
      }
    }
    try await serving.value
  }
} catch is CancellationError {
  exit(EXIT_SUCCESS)
} catch {
  end("\(error)", status: EXIT_FAILURE)
}

func parseAddress(_ text: String) -> SocketAddress {
  do { return try SocketAddress(text) } catch { end("\(error)", status: EX_USAGE) }
}

/// Prints one line on standard error and ends the process.
func end(_ message: String, status: CInt) -> Never {
  let line = Array("tcp-proxy: \(message)\n".utf8)
  _ = write(STDERR_FILENO, line, line.count)
  exit(status)
}
