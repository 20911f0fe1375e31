/// Where pieces come from, one after the other. Loop thread only, but for ``drop()``.
protocol ReadAheadSource<Piece>: AnyObject, Sendable {
  associatedtype Piece: Sendable

  /// Gets the next piece, `nil` at the end. Not called again before it has called `completion`, nor after the end or an error.
  func fetch(_ completion: @escaping (Result<Piece?, any Error>) -> Void)

  /// No piece is wanted any more; the one on its way may be cancelled.
  ///
  /// - Parameter piece: One that nobody has taken.
  func stop(_ piece: Piece?)

  /// As ``stop(_:)`` when the loop has closed, and so nothing is on its way. Any thread.
  func drop()
}

/// Pieces for an iteration, fetched one ahead of it. One that was not taken, because the task was cancelled, is there for the next call.
// Unchecked: the variables are loop thread only.
final class ReadAhead<Piece: Sendable>: @unchecked Sendable {
  private enum Phase {
    case idle, fetching
    case ready(Result<Piece?, any Error>)
    case over
  }

  private let loop: LoopCore
  private let source: any ReadAheadSource<Piece>
  private var phase = Phase.idle
  private var waiting: ((Result<Piece?, any Error>) -> Void)?

  init(loop: LoopCore, _ source: any ReadAheadSource<Piece>) {
    self.loop = loop
    self.source = source
  }

  /// The next piece, `nil` at the end and after an error. Any thread; not while another call waits.
  func next() async throws -> Piece? {
    try await loop.wait { continuation in
      self.take { continuation.resume(with: $0) }
    } cancel: {
      self.waiting.take()?(.failure(CancellationError()))
    }
  }

  /// The iteration is over. Any thread.
  func drop() {
    let isAccepted = loop.perform {
      var piece: Piece?
      if case .ready(.success(let ready)) = self.phase { piece = ready }
      self.phase = .over
      self.source.stop(piece)
    }
    if !isAccepted { source.drop() }
  }

  private func take(_ completion: @escaping (Result<Piece?, any Error>) -> Void) {
    trapUnless(waiting == nil, "An iterator gives one element at a time: await it before the next.")
    waiting = completion
    switch phase {
    case .idle: fetch()
    case .fetching: break
    case .ready(let result): deliver(result)
    case .over: waiting.take()?(.success(nil))
    }
  }

  private func fetch() {
    phase = .fetching
    source.fetch { result in
      guard case .fetching = self.phase else { return }
      if self.waiting != nil { self.deliver(result) } else { self.phase = .ready(result) }
    }
  }

  private func deliver(_ result: Result<Piece?, any Error>) {
    let completion = waiting.take()
    if case .success(.some) = result { fetch() } else { phase = .over }
    completion?(result)
  }
}
