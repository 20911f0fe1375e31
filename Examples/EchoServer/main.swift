// An echo server, with operations or with async/await.

import Foundation
import UV
import UVOperations

let options: Options
do {
  options = try Options(CommandLine.arguments.dropFirst())
} catch {
  exit("echo-server: \(error) (--help lists the options)", status: EX_USAGE)
}
if options.showsHelp {
  print(Options.help)
  exit(0)
}

// The host may be a name, so the server starts when its address is known.
let resolve = ResolveOperation(options.host, port: options.port, on: .main)
resolve.whenFinished { result in
  do {
    guard let address = try result.get().first else { return }
    switch options.mode {
    case .operations: try EchoServer(address, options).start()
    case .async: start(AsyncEchoServer(address, options))
    }
  } catch {
    exit("echo-server: \(error)", status: EXIT_FAILURE)
  }
}
resolve.start()
EventLoop.main.run()

func start(_ server: AsyncEchoServer) {
  Task {
    do {
      try await server.run()
    } catch {
      exit("echo-server: \(error)", status: EXIT_FAILURE)
    }
  }
}

/// Prints one line on standard error and ends the process.
func exit(_ message: String, status: CInt) -> Never {
  FileHandle.standardError.write(Data("\(message)\n".utf8))
  exit(status)
}
