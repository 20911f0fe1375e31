internal import CUV

/// One name look-up in libuv's thread pool.
///
/// libuv holds a reference from a successful `start` until `lookUpDidFinish`, also after a cancellation: a look-up that
/// runs cannot be interrupted, so its result is thrown away when it comes.
///
/// Loop thread only, but for `init`.
// Unchecked: the variables are loop thread only.
package final class ResolveRequest: LoopRequest, @unchecked Sendable {
  package typealias Completion = (Result<[SocketAddress], any Error>) -> Void

  private let loop: LoopCore
  private let host: String
  private let port: Int
  private let request = UnsafeMutablePointer<uv_getaddrinfo_t>.allocate(capacity: 1)
  private var completion: Completion?
  private var isRunning = false

  package init(loop: LoopCore, host: String, port: Int) {
    self.loop = loop
    self.host = host
    self.port = port
  }

  deinit { request.deallocate() }

  /// Calls `completion` exactly once: at once for a numeric address and for what can be refused without asking.
  package func start(_ completion: @escaping Completion) {
    loop.preconditionIsCurrent()
    if let known = Result(asking: { try knownAddress() }) { return completion(known) }
    guard loop.acceptsNew else { return completion(.failure(EventLoopClosed())) }
    self.completion = completion
    var hints = addrinfo()
    hints.ai_socktype = CInt(SOCK_STREAM.rawValue)
    request.pointee.data = Unmanaged.passRetained(self).toOpaque()  // Released in lookUpDidFinish.
    let status = uv_getaddrinfo(loop.uv, request, lookUpDidFinish, host, nil, &hints)
    guard status == 0 else {
      Unmanaged.passUnretained(self).release()  // Refused: the callback will never run.
      return finish(.failure(IOError(status, "resolve", host)))
    }
    isRunning = true
    loop.requestStarted(self)
  }

  /// Ends the waiting with `error`, at once. What runs in the thread pool ends unseen.
  package func cancel(_ error: any Error = CancellationError()) { stop(error) }

  func loopIsClosing() { stop(EventLoopClosed()) }

  private func stop(_ error: any Error) {
    if isRunning {
      // Fails when the look-up is past the pool's queue; its callback comes all the same.
      uv_cancel(UnsafeMutableRawPointer(request).assumingMemoryBound(to: uv_req_t.self))
    }
    finish(.failure(error))
  }

  private func finish(_ result: Result<[SocketAddress], any Error>) {
    let completion = completion
    self.completion = nil
    completion?(result)
  }

  /// The addresses, if they can be told without a look-up.
  private func knownAddress() throws -> [SocketAddress]? {
    guard (0...65_535).contains(port) else { throw AddressError(.port, "\(host):\(port)") }
    let labels = host.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    guard !host.isEmpty, host.utf8.count <= 253, !host.utf8.contains(0),
      labels.allSatisfy({ $0.count <= 63 })
    else { throw AddressError(.hostName, host) }
    switch Result(catching: { () throws(AddressError) in try SocketAddress(host, port: port) }) {
    case .success(let address): return [address]
    case .failure(let error) where error.reason == .notNumeric: return nil
    case .failure(let error): throw error
    }
  }

  fileprivate func finishLookUp(_ status: CInt, _ list: UnsafeMutablePointer<addrinfo>?) {
    defer { uv_freeaddrinfo(list) }
    isRunning = false
    loop.requestEnded(self)
    guard status == 0 else { return finish(.failure(IOError(status, "resolve", host))) }
    finish(.success(addresses(in: list)))
  }

  private func addresses(in list: UnsafeMutablePointer<addrinfo>?) -> [SocketAddress] {
    var addresses: [SocketAddress] = []
    var next = list
    while let entry = next?.pointee {
      if let address = entry.ai_addr.flatMap({ SocketAddress($0) })?.with(port: port),
        !addresses.contains(address)
      {
        addresses.append(address)
      }
      next = entry.ai_next
    }
    return addresses
  }
}

private func lookUpDidFinish(
  _ request: UnsafeMutablePointer<uv_getaddrinfo_t>?, _ status: CInt,
  _ list: UnsafeMutablePointer<addrinfo>?
) {
  let resolve = Unmanaged<ResolveRequest>.fromOpaque(request!.pointee.data).takeRetainedValue()
  resolve.finishLookUp(status, list)
}

extension Result where Failure == any Error {
  /// `nil` if `body` has no answer, otherwise its answer or its error.
  fileprivate init?(asking body: () throws -> Success?) {
    do {
      guard let answer = try body() else { return nil }
      self = .success(answer)
    } catch {
      self = .failure(error)
    }
  }
}

extension EventLoop {
  /// Looks up the addresses of `host`, in the order the system prefers, each with `port`.
  ///
  /// Any thread. The system's `getaddrinfo` runs in libuv's thread pool; a numeric address is answered without it.
  ///
  /// - Throws: ``IOError`` such as `nameNotKnown`, ``AddressError`` for what cannot be a host name or port, `CancellationError` at
  ///   once when the task is cancelled, ``EventLoopClosed`` if the loop shuts down.
  public func resolve(_ host: String, port: Int) async throws -> [SocketAddress] {
    let request = ResolveRequest(loop: core, host: host, port: port)
    return try await core.wait(.new) { continuation in
      request.start { continuation.resume(with: $0) }
    } cancel: {
      request.cancel()
    }
  }
}
