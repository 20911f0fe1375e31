internal import CUV

/// What may not take too long on one stream. One timer serves all of it: it is armed for what is due first and looks again when it fires,
/// so that a read or write that ends in time costs no call of libuv's.
///
/// Loop thread only.
final class StreamTimeouts {
  private let timer: TimerCore
  private let read: UInt64?
  private let write: UInt64?
  private let idle: UInt64?
  private var readBegan: UInt64 = 0
  private var writeAdvanced: UInt64 = 0
  private var armed = UInt64.max

  /// `nil` if there are none.
  init?(_ options: TCPOptions, loop: LoopCore) {
    guard options.readTimeout != nil || options.writeTimeout != nil || options.idleTimeout != nil
    else { return nil }
    read = options.readTimeout?.clampedNanoseconds
    write = options.writeTimeout?.clampedNanoseconds
    idle = options.idleTimeout?.clampedNanoseconds
    timer = TimerCore(loop: loop, survivesShutdown: true)
  }

  func discard() { timer.discard() }

  func readDidBegin(on stream: StreamCore) {
    guard let read else { return }
    readBegan = uv_hrtime()
    arm(readBegan &+ read, on: stream)
  }

  func writeDidAdvance(on stream: StreamCore) {
    guard let write else { return }
    writeAdvanced = uv_hrtime()
    arm(writeAdvanced &+ write, on: stream)
  }

  /// Ends what is too late, and looks again when the next is due.
  func check(_ stream: StreamCore) {
    armed = .max
    let now = uv_hrtime()
    if let idle {
      let due = stream.lastActivity &* 1_000_000 &+ idle
      if now >= due { return stream.reset(IOError(.timedOut, "wait for the peer", stream.subject)) }
      arm(due, on: stream)
    }
    if let read, stream.reader != nil {
      let due = readBegan &+ read
      if now >= due { stream.readIsLate() } else { arm(due, on: stream) }
    }
    if let write, !stream.isFlushed {
      let due = writeAdvanced &+ write
      if now >= due {
        stream.failWrites(IOError(.timedOut, "write", stream.subject))
      } else {
        arm(due, on: stream)
      }
    }
  }

  private func arm(_ due: UInt64, on stream: StreamCore) {
    guard due < armed else { return }
    armed = due
    // The stream discards the timer when it ends.
    timer.arm(Deadline(nanoseconds: due)) { self.check(stream) }
  }
}
