package import UV

/// An operation whose work is one request, made from the inputs when the operation starts.
// The proof for `Sendable`: the variables are written in `main()` and, to let go of what they hold, on finishing, which comes after it; the
// loop thread reads `request` in between and later.
public class RequestOperation<Output: Sendable>: LoopOperation<Output>, @unchecked Sendable {
  package typealias Source = @Sendable () throws -> (EventLoop, any LoopRequest<Output>, File?)

  private var source: Source?
  private var request: (any LoopRequest<Output>)?
  // Keeps it from being dropped; read nowhere.
  private var file: File?

  /// - Parameter source: Evaluates the inputs, makes the request, and says which loop it is for and which file must stay meanwhile.
  package init(_ source: @escaping Source) { self.source = source }

  public final override func main() {
    do {
      guard let source = source.take() else { return }
      let (loop, request, file) = try source()
      self.request = request
      self.file = file
      begin(on: loop)
    } catch {
      finish(throwing: error)
    }
  }

  package final override func startRequest() { request?.start { self.requestDidEnd($0) } }

  package final override func stopRequest(_ error: any Error) { request?.cancel(error) }

  public override func releaseResources() {
    source = nil
    file = nil
  }
}
