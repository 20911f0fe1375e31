import Glibc
import TestSupport
import Testing
import UV

/// What goes to standard error, each in a process of its own.
@Suite(.timeLimit(.minutes(1))) struct ReportTests {
  @Test func aReaderOfStandardErrorThatIsStuckHoldsNobody() async {
    await #expect(processExitsWith: .success) {
      let reader = standardErrorAsPipe()
      let line = String(repeating: "x", count: 1_000)
      // Many times what a pipe takes.
      for _ in 0..<1_000 { Report.send(line) }
      let text = readAll(reader)
      let lines = text.split(separator: "\n")
      #expect(lines.allSatisfy { $0 == "swift-uv: \(line)" } && lines.count > 10)
      Report.send("the next")
      #expect(
        readAll(reader)
          == "swift-uv: \(1_000 - lines.count) lines before this one are lost\nswift-uv: the next\n"
      )
    }
  }

  @Test func aReaderOfStandardErrorThatIsGoneEndsNobody() async {
    await #expect(processExitsWith: .success) {
      signal(SIGPIPE, SIG_DFL)
      close(standardErrorAsPipe())
      var signals = sigset_t()
      sigemptyset(&signals)
      sigaddset(&signals, SIGPIPE)
      pthread_sigmask(SIG_UNBLOCK, &signals, nil)
      Report.send("to nobody")
      close(STDERR_FILENO)
      Report.send("to nothing")
    }
  }

  @Test func aLongReportIsCutAndStaysALine() async {
    await #expect(processExitsWith: .success) {
      let reader = standardErrorAsPipe()
      Report.send(String(repeating: "x", count: 100_000))
      Report.send("y")
      let lines = readAll(reader).split(separator: "\n")
      #expect(lines.map(\.count) == [4_095, 11])
    }
  }
}

/// Makes standard error a pipe, and returns the end to read from.
private func standardErrorAsPipe() -> CInt {
  var ends: [CInt] = [0, 0]
  pipe(&ends)
  dup2(ends[1], STDERR_FILENO)
  close(ends[1])
  return ends[0]
}

/// What is in the pipe now.
private func readAll(_ descriptor: CInt) -> String {
  _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
  var bytes: [UInt8] = []
  var buffer = [UInt8](repeating: 0, count: 65_536)
  while case let count = read(descriptor, &buffer, buffer.count), count > 0 {
    bytes += buffer[..<count]
  }
  return String(decoding: bytes, as: UTF8.self)
}
