package import UV

/// An operation on a stream that is known when the operation starts.
// The proof for `Sendable`: the variables are written in `main()` and, to let go of what they hold, on finishing, which comes after it; the
// loop thread reads `core` and `ticket` in between and later.
public class StreamOperation<Output: Sendable>: LoopOperation<Output>, @unchecked Sendable {
  // Without the run-time check for overlapping accesses, which costs more than the access: none spans a call of foreign code.
  @exclusivity(unchecked) private var input: (@Sendable () throws -> TCPStream)?
  // Keeps it from being dropped; read nowhere.
  @exclusivity(unchecked) private var stream: TCPStream?
  @exclusivity(unchecked) package private(set) final var core: StreamCore!
  @exclusivity(unchecked) package private(set) final var ticket: UInt64 = 0

  package init(evaluating input: @escaping @Sendable () throws -> TCPStream) {
    self.input = input
  }

  public final override func main() {
    do {
      guard let input = input.take() else { return }
      let stream = try input()
      try evaluateInputs()
      let core = stream.core
      ticket = core.nextTicket()
      self.core = core
      self.stream = stream
      begin(on: stream.loop)
    } catch {
      finish(throwing: error)
    }
  }

  /// Evaluates further inputs, in `main()`.
  package func evaluateInputs() throws {}

  public override func releaseResources() {
    input = nil
    stream = nil
  }
}
