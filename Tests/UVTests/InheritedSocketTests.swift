import Glibc
import TestSupport
import Testing

import UV

@Suite(.timeLimit(.minutes(1)))
struct InheritedSocketTests {
  @Test func aSocketThatIsPassedOnAccepts() async throws {
    try await withLoop { loop in
      try await RawSocket.withBoundPort { bound, port in
        listen(bound, 16)
        let passed = dup(bound)
        let environment = [
          "LISTEN_PID": "\(getpid())", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "echo",
        ]
        let sockets = try InheritedSocket.passed(by: { environment[$0] }, from: passed)
        #expect(sockets.map(\.descriptor) == [passed] && sockets.map(\.name) == ["echo"])
        #expect(fcntl(passed, F_GETFD) == FD_CLOEXEC)

        let listener = try TCPListener(adopting: sockets[0].descriptor, loop: loop)
        let client = try await TCPStream.connect(to: .loopback(port: port), loop: loop)
        let accepted = try await listener.accept()
        await client.close()
        await accepted.close()
        await listener.close()
      }
      await expectNothingLeft(on: loop)
    }
  }

  @Test(arguments: [
    [:],
    ["LISTEN_FDS": "1"],
    ["LISTEN_PID": "1", "LISTEN_FDS": "1"],
    ["LISTEN_PID": "\(getpid())", "LISTEN_FDS": "0"],
  ])
  func nothingIsPassedToThisProcess(_ environment: [String: String]) throws {
    #expect(try InheritedSocket.passed(by: { environment[$0] }, from: 3).isEmpty)
  }

  @Test(arguments: [
    ("LISTEN_PID", "me"),
    ("LISTEN_PID", ""),
    ("LISTEN_FDS", "three"),
    ("LISTEN_FDS", "-1"),
    ("LISTEN_FDS", "99999999999"),
    ("LISTEN_FDS", "\(CInt.max)"),
    ("LISTEN_FDNAMES", "one:two"),
  ])
  func variablesThatMakeNoSenseAreNamed(_ variable: String, _ text: String) {
    var environment = ["LISTEN_PID": "\(getpid())", "LISTEN_FDS": "1"]
    environment[variable] = text
    #expect(throws: IOError(.invalidArgument, "take over", "\(variable)=\(text)")) {
      try InheritedSocket.passed(by: { environment[$0] }, from: 3)
    }
  }

  @Test func aSocketThatIsNotThereIsNamed() {
    let environment = ["LISTEN_PID": "\(getpid())", "LISTEN_FDS": "1"]
    #expect(throws: IOError(.badDescriptor, "take over", "descriptor 1000000000")) {
      try InheritedSocket.passed(by: { environment[$0] }, from: 1_000_000_000)
    }
  }

  /// In a process of its own, because it can be done once.
  @Test func theyAreTakenOnce() async {
    await #expect(processExitsWith: .success) {
      setenv("LISTEN_PID", "\(getpid())", 1)
      setenv("LISTEN_FDS", "two", 1)
      #expect(throws: IOError.self) { try InheritedSocket.takeAll() }
      setenv("LISTEN_FDS", "2", 1)
      setenv("LISTEN_FDNAMES", "http:admin", 1)
      // The system gives the lowest number that is free; one that had another owner may be gone in the next moment.
      var sockets: [InheritedSocket]?
      while sockets == nil {
        while open("/dev/null", O_RDONLY) <= 4 {}
        do {
          sockets = try InheritedSocket.takeAll()
        } catch let error as IOError {
          #expect(error.code == .badDescriptor)
        }
      }
      #expect(sockets?.map(\.descriptor) == [3, 4])
      #expect(sockets?.map(\.name) == ["http", "admin"])
      #expect(try InheritedSocket.takeAll().isEmpty)
    }
  }
}
