internal import CUV

/// One request of libuv's thread pool, whatever it brings: its way there and back.
///
/// libuv holds a reference from a successful `submit` until its callback, also after a cancellation: what runs cannot be interrupted, so
/// its memory stays, and what it brings then is taken care of.
///
/// Not generic, nor are the requests that are made by the thousand: the runtime would look up types for each of them.
///
/// Loop thread only, but for `init`.
// Unchecked: the variables are loop thread only, and `begin` and `cancel` assert that. They go without the run-time check for
// overlapping accesses, which costs more than the access: none of theirs spans a call of foreign code.
package class AnyPoolRequest: @unchecked Sendable {
  private enum Phase {
    case new
    /// For a thread that blocking requests may have.
    case waiting(UInt64)
    case submitted
    case done
  }

  package let loop: LoopCore
  let operation: String
  @exclusivity(unchecked) private var phase = Phase.new
  @exclusivity(unchecked) private var hasThread = false
  /// Why it was cancelled.
  @exclusivity(unchecked) private(set) final var stopError: (any Error)?

  // For RequestList.
  @exclusivity(unchecked) fileprivate final unowned(unsafe) var next: AnyPoolRequest?
  @exclusivity(unchecked) fileprivate final unowned(unsafe) var previous: AnyPoolRequest?

  init(loop: LoopCore, _ operation: String) {
    self.loop = loop
    self.operation = operation
  }

  // MARK: For the subclass

  /// Hands the request to libuv, whose callback calls ``poolRequestIsDone(_:_:)`` with `data`.
  func submit(_ data: UnsafeMutableRawPointer) -> CInt { CInt(UV_ENOSYS.rawValue) }

  /// libuv's request.
  var request: UnsafeMutablePointer<uv_req_t>? { nil }

  /// Called on a thread of the pool, by requests that run Swift code there.
  func run() {}

  /// Called once for each request that was begun, when libuv is done with it or never gets it.
  ///
  /// - Parameters:
  ///   - status: What libuv says of it; `nil` if it did not get it.
  ///   - error: What to fail with instead of that.
  func didEnd(_ status: Int?, _ error: (any Error)?) {}

  /// Called when nobody waits for the end any more, which comes later.
  func stopWaiting(_ error: any Error) {}

  /// It was cancelled before it was begun.
  func release() {}

  /// What it is about, for errors.
  var about: String? { nil }

  /// Whether it may block for long, and so must leave a thread to others.
  var mayBlock: Bool { false }

  /// Whether it works in memory of the caller, who then must not be told of its end early.
  var usesCallersMemory: Bool { false }

  /// Whether it ends soon by itself, and must: a loop that closes waits for it.
  var mustFinish: Bool { false }

  /// Whether the loop lets it go on until the grace period of a shutdown ends.
  var mayFinishDuringShutdown: Bool { false }

  final func error(_ status: Int) -> any Error {
    IOError(CInt(clamping: status), operation, about)
  }

  // MARK: From the beginning to the end

  /// Has it run, unless it was cancelled before. ``didEnd(_:_:)`` follows in every case, perhaps in here.
  final func begin() {
    loop.preconditionIsCurrent()
    guard case .new = phase else { return didEnd(nil, stopError ?? CancellationError()) }
    guard mayFinishDuringShutdown ? loop.takesRequests : loop.acceptsNew else {
      phase = .done
      return didEnd(nil, EventLoopClosed())
    }
    loop.requestStarted(self)
    guard mayBlock else { return submit() }
    if let place = ThreadPool.takeThread(on: loop, { self.threadIsFree() }) {
      phase = .waiting(place)
    } else {
      hasThread = true
      submit()
    }
  }

  private func threadIsFree() {
    guard case .waiting = phase else { return ThreadPool.releaseThread() }
    hasThread = true
    submit()
  }

  private func submit() {
    phase = .submitted
    let data = Unmanaged.passRetained(self)  // Released in poolRequestIsDone.
    let status = ThreadPool.submit { submit(data.toOpaque()) }
    guard status != 0 else { return }
    data.release()  // Refused: the callback will never run.
    end(nil, error(Int(status)))
  }

  /// Ends the waiting with `error`: at once, unless the request is at work in the caller's memory. One that has not begun never does.
  package func cancel(_ error: any Error) {
    switch phase {
    case .new:
      phase = .done
      stopError = error
      release()
    case .waiting(let place):
      ThreadPool.giveUp(place)
      stopError = error
      end(nil, error)
    case .submitted:
      // Fails when the request is past the pool's queue; its callback comes all the same.
      uv_cancel(request)
      stopError = error
      if !usesCallersMemory { stopWaiting(error) }
    case .done:
      break
    }
  }

  final func loopIsClosing() {
    if !mustFinish { cancel(EventLoopClosed()) }
  }

  /// What the request is for, as its errors say it.
  final var purpose: String { about.map { "\(operation) \($0)" } ?? operation }

  fileprivate final func libuvIsDone(_ status: Int) {
    ThreadPool.requestIsDone()
    end(status, status == Int(UV_ECANCELED.rawValue) ? stopError : nil)
  }

  private func end(_ status: Int?, _ error: (any Error)?) {
    phase = .done
    if hasThread { ThreadPool.releaseThread() }
    hasThread = false
    loop.requestEnded(self)
    didEnd(status, error)
  }
}

/// The requests of a loop that have not ended. Each is held by libuv or, while it waits for a thread, by ``ThreadPool``.
///
/// Loop thread only.
struct RequestList {
  private unowned(unsafe) var first: AnyPoolRequest?

  mutating func insert(_ request: AnyPoolRequest) {
    request.next = first
    first?.previous = request
    first = request
  }

  mutating func remove(_ request: AnyPoolRequest) {
    request.next?.previous = request.previous
    if let previous = request.previous {
      previous.next = request.next
    } else {
      first = request.next
    }
    request.next = nil
    request.previous = nil
  }

  /// Those of this moment.
  var all: [AnyPoolRequest] {
    var all: [AnyPoolRequest] = []
    var request = first
    while let some = request {
      all.append(some)
      request = some.next
    }
    return all
  }
}

/// Something that a loop does and that ends once, with a value or an error. Loop thread only.
package protocol LoopRequest<Value>: AnyObject, Sendable {
  associatedtype Value: Sendable

  /// Calls `completion` exactly once.
  func start(_ completion: @escaping (Result<Value, any Error>) -> Void)

  /// Ends the waiting with `error`, if it has not ended. May be called before the start, and again.
  func cancel(_ error: any Error)
}

/// A request and its result.
///
/// Loop thread only, but for `init`.
// Unchecked: as AnyPoolRequest.
package class PoolRequest<Value: Sendable>: AnyPoolRequest, LoopRequest, @unchecked Sendable {
  package typealias Completion = (Result<Value, any Error>) -> Void

  let subject: FileSubject
  private var completion: Completion?

  /// Gets the value when nobody waits for it any more.
  var unclaimed: ((Value) -> Void)?
  /// Called when libuv is done with the request, before its completion, and also when nobody waits for that any more.
  var whenDone: ((Result<Value, any Error>) -> Void)?

  init(loop: LoopCore, _ operation: String, _ subject: FileSubject = FileSubject()) {
    self.subject = subject
    super.init(loop: loop, operation)
  }

  override var about: String? { subject.description }

  /// What the request has brought, `status` being what libuv says of it.
  func result(_ status: Int) -> Result<Value, any Error> { .failure(error(status)) }

  /// Calls `completion` exactly once: with what the request brought, or with the reason why nobody waits for it any more.
  package func start(_ completion: @escaping Completion) {
    self.completion = completion
    begin()
  }

  final override func didEnd(_ status: Int?, _ error: (any Error)?) {
    // What libuv has brought is taken in every case, and freed with it.
    let brought = status.map { self.result($0) }
    var result = error.map { .failure($0) } ?? brought!
    // One that fails after it was told to stop has stopped.
    if case .failure = result, let stopError { result = .failure(stopError) }
    release()
    if completion == nil, case .success(let value) = result { unclaimed?(value) }
    unclaimed = nil
    whenDone.take()?(result)
    completion.take()?(result)
  }

  final override func stopWaiting(_ error: any Error) { completion.take()?(.failure(error)) }
}

/// libuv is done with the request that `data` names.
func poolRequestIsDone(_ data: UnsafeMutableRawPointer, _ status: Int) {
  Unmanaged<AnyPoolRequest>.fromOpaque(data).takeRetainedValue().libuvIsDone(status)
}

/// What a request is about, to be spelled out only if it fails.
struct FileSubject: Sendable {
  var path: FilePath?
  var other: FilePath?
  var text: String?

  var description: String? {
    guard let path else { return text }
    guard let other else { return path.description }
    return "\(path) to \(other)"
  }
}

/// A request whose value is made of that of another.
package final class MappedRequest<Base: LoopRequest, Value: Sendable>: LoopRequest {
  private let base: Base
  private let transform: @Sendable (Base.Value) -> Value

  init(_ base: Base, _ transform: @escaping @Sendable (Base.Value) -> Value) {
    self.base = base
    self.transform = transform
  }

  package func start(_ completion: @escaping (Result<Value, any Error>) -> Void) {
    base.start { [transform] in completion($0.map(transform)) }
  }

  package func cancel(_ error: any Error) { base.cancel(error) }
}

extension LoopRequest {
  package func map<NewValue: Sendable>(
    _ transform: @escaping @Sendable (Value) -> NewValue
  ) -> MappedRequest<Self, NewValue> {
    MappedRequest(self, transform)
  }
}
