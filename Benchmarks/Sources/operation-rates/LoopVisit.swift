import UV
import UVOperations

/// An operation that does nothing but go to a loop's thread and finish there.
final class LoopVisit: AsynchronousOperation, @unchecked Sendable {
  private let loop: EventLoop

  init(to loop: EventLoop) { self.loop = loop }

  override func main() {
    // The loop is open as long as the run goes on.
    try! loop.execute { self.finish() }
  }
}
