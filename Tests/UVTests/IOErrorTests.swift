import Testing
import UV

@Suite(.timeLimit(.minutes(1))) struct IOErrorTests {
  @Test func anErrorPrintsWhatWasTriedOnWhatAndWhyItFailed() {
    let error = IOError(.connectionRefused, "connect", "127.0.0.1:7007")
    #expect("\(error)" == "connect 127.0.0.1:7007: connection refused (ECONNREFUSED)")
    #expect("\(IOError(.brokenPipe, "write"))" == "write: broken pipe (EPIPE)")
  }

  @Test(arguments: [
    (IOError.Code.addressInUse, "EADDRINUSE"), (.badDescriptor, "EBADF"),
    (.cancelled, "ECANCELED"), (.connectionReset, "ECONNRESET"), (.invalidArgument, "EINVAL"),
    (.nameNotKnown, "EAI_NONAME"), (.nameTryAgain, "EAI_AGAIN"), (.notPermitted, "EPERM"),
    (.permissionDenied, "EACCES"), (.timedOut, "ETIMEDOUT"), (.tooManyOpenFiles, "EMFILE"),
    (.tooManyOpenFilesInSystem, "ENFILE"),
  ])
  func aCodeHasItsNameInC(_ code: IOError.Code, _ name: String) {
    #expect(code.name == name)
    #expect(code.description == "\(code.message) (\(name))")
    #expect(IOError.Code(rawValue: code.rawValue) == code)
  }

  @Test(arguments: [-12_345, 0, 1, Int32.min, Int32.max])
  func anUnknownCodeKeepsItsNumber(_ number: Int32) {
    let error = IOError(IOError.Code(rawValue: number), "read")
    #expect(error.code.rawValue == number)
    #expect("\(error)".contains("\(number)"))
  }

  @Test func anErrnoBecomesItsCode() {
    #expect(IOError(errno: 111, "connect").code == .connectionRefused)
    #expect(IOError(errno: 24, "open").code == .tooManyOpenFiles)
  }

  @Test func errorsAreEqualIfAllTheirPartsAre() {
    let error = IOError(.timedOut, "connect", "host")
    #expect(error == IOError(.timedOut, "connect", "host"))
    #expect(error != IOError(.timedOut, "connect"))
    #expect(error != IOError(.timedOut, "read", "host"))
    #expect(error != IOError(.connectionReset, "connect", "host"))
    #expect(Set([error, error, IOError(.timedOut, "connect")]).count == 2)
  }

  @Test func slipsSayWhatToDoInstead() {
    #expect("\(EventLoopClosed())" == "the event loop has been shut down")
    #expect("\(StreamClosed("write"))" == "write: the stream is closed")
    #expect("\(ConcurrentRead())".contains("await it before the next"))
  }
}
