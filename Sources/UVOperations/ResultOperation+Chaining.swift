internal import Foundation
internal import Locking

extension ResultOperation {
  /// Makes an operation that depends on this one and turns its output into another.
  ///
  /// Any thread. Both operations have to be put into a queue, or started, like any others. `transform` is called once, on the thread that
  /// starts the new one; when this operation fails or is cancelled, the new one fails with the same error instead.
  public func map<NewOutput: Sendable>(
    _ transform: @escaping @Sendable (Output) throws -> NewOutput
  ) -> ResultOperation<NewOutput> {
    let next = DerivedOperation("\(displayName).map", from: self) { try transform($0.get()) }
    next.addDependency(self)
    return next
  }

  /// Makes an operation that depends on this one and goes on in spite of its failure: with its output, or with what `replacement` makes
  /// of the error, which is a `CancellationError` if this operation was cancelled.
  ///
  /// Otherwise as ``map(_:)``. The new operation starts whatever its dependencies failed with, also those that are added later.
  public func recover(
    _ replacement: @escaping @Sendable (any Error) throws -> Output
  ) -> ResultOperation<Output> {
    let next = DerivedOperation("\(displayName).recover", from: self) {
      do { return try $0.get() } catch { return try replacement(error) }
    }
    next.startsAfterFailedDependencies = true
    next.addDependency(self)
    return next
  }
}

/// Finishes with what a function makes of the result of another operation.
// The proof for `Sendable`: `source` is read in `main()` and let go of after it; `transform` is guarded.
private final class DerivedOperation<Input: Sendable, Output: Sendable>: ResultOperation<Output>,
  @unchecked Sendable
{
  private var source: [ResultOperation<Input>]
  private let transform: Lock<(@Sendable (Result<Input, any Error>) throws -> Output)?>

  init(
    _ name: String, from source: ResultOperation<Input>,
    _ transform: @escaping @Sendable (Result<Input, any Error>) throws -> Output
  ) {
    self.source = [source]
    self.transform = Lock(transform)
    super.init()
    self.name = name
  }

  // It may be the last of a long chain, none of which has run.
  deinit { ReleaseInTurn.release(&source) }

  override func main() {
    guard let transform = transform.withLock({ $0.take() }) else { return }
    let input = Result { try source[0].output }
    finish(Result { try transform(input) })
  }

  override func releaseResources() {
    ReleaseInTurn.release(&source)
    let unused = transform.withLock { $0.take() }
    // It goes when the lock is free: with it may go anything of the user's.
    withExtendedLifetime(unused) {}
  }
}
