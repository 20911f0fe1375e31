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
  // Not by libuv's clock, which is old when the loop has been busy.
  private var active: UInt64 = 0
  private var readBegan: UInt64 = 0
  private var writeAdvanced: UInt64 = 0
  /// What libuv still had to send when it was last looked at.
  private var unsent = 0
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

  func noteActivity() {
    if idle != nil { active = uv_hrtime() }
  }

  func readDidBegin(on stream: StreamCore) {
    guard let read else { return }
    readBegan = uv_hrtime()
    arm(readBegan &+ read, on: stream)
  }

  func writeDidAdvance(on stream: StreamCore) {
    guard let write else { return }
    writeAdvanced = uv_hrtime()
    unsent = 0
    arm(writeAdvanced &+ write / 4, on: stream)
  }

  /// Ends what is too late, and looks again when the next is due.
  func check(_ stream: StreamCore) {
    armed = .max
    let now = uv_hrtime()
    if let idle {
      let due = active &+ idle
      if now >= due { return stream.reset(IOError(.timedOut, "wait for the peer", stream.subject)) }
      arm(due, on: stream)
    }
    if let read, stream.reader != nil {
      let due = readBegan &+ read
      if now >= due { stream.readIsLate() } else { arm(due, on: stream) }
    }
    if let write, !stream.isFlushed {
      // What libuv sends of a block in between shows in its queue alone, so that is looked at now and then.
      let left = stream.stream.pointee.write_queue_size
      if left < unsent { writeAdvanced = now }
      unsent = left
      let due = writeAdvanced &+ write
      if now >= due {
        stream.failWrites(IOError(.timedOut, "write", stream.subject))
      } else {
        arm(min(due, now &+ write / 4 &+ 1), on: stream)
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
