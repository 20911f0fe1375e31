import Foundation
import Synchronization
import UV

/// What the server has echoed so far.
final class Traffic: Sendable {
  private let messageCount = Atomic<Int>(0)
  private let byteCount = Atomic<Int>(0)

  var messages: Int { messageCount.load(ordering: .relaxed) }
  var bytes: Int { byteCount.load(ordering: .relaxed) }

  func count(_ bytes: Int) {
    messageCount.add(1, ordering: .relaxed)
    byteCount.add(bytes, ordering: .relaxed)
  }
}

/// Shows each second what the server is doing: one live line on a terminal, a line a second elsewhere.
// Unchecked: the variables are touched on the loop thread only, by the timer.
final class Statistics: @unchecked Sendable {
  private let traffic: Traffic
  private let connectionCount: @Sendable () -> Int
  private let isTerminal = isatty(STDOUT_FILENO) == 1
  private let clock = SuspendingClock()
  private var last: (time: SuspendingClock.Instant, messages: Int, bytes: Int)

  init(of traffic: Traffic, connectionCount: @escaping @Sendable () -> Int) {
    self.traffic = traffic
    self.connectionCount = connectionCount
    last = (clock.now, 0, 0)
  }

  func start() throws {
    try EventLoop.main.schedule(every: .seconds(1)) { _ in self.show() }
  }

  private func show() {
    let now = clock.now
    let elapsed = now - last.time
    let (messages, bytes) = (traffic.messages, traffic.bytes)
    let line =
      "\(connectionCount()) connections, \(rate(messages - last.messages, elapsed)) messages/s, "
      + "\(rate(bytes - last.bytes, elapsed)) bytes/s, loop delay \(delay(elapsed)) ms"
    last = (now, messages, bytes)
    print(isTerminal ? "\r\(line)\u{1B}[K" : line, terminator: isTerminal ? "" : "\n")
    fflush(nil)
  }

  private func rate(_ count: Int, _ elapsed: Duration) -> Int {
    Int((Double(count) / (elapsed / .seconds(1))).rounded())
  }

  /// How much later than a second the timer came, which is how long the loop was busy with something else.
  private func delay(_ elapsed: Duration) -> Int {
    max(0, Int((elapsed - .seconds(1)) / .milliseconds(1)))
  }
}
