internal import CUV

/// One name look-up in libuv's thread pool.
// Unchecked: as PoolRequest.
package final class ResolveRequest: PoolRequest<[SocketAddress]>, @unchecked Sendable {
  private let host: String
  private let port: Int
  private let lookUp = UnsafeMutablePointer<uv_getaddrinfo_t>.allocate(capacity: 1)
  private var list: UnsafeMutablePointer<addrinfo>?

  package init(loop: LoopCore, host: String, port: Int) {
    self.host = host
    self.port = port
    super.init(loop: loop, "resolve", FileSubject(text: host))
  }

  deinit { lookUp.deallocate() }

  /// Calls `completion` exactly once: at once for a numeric address and for what can be refused without asking.
  package override func start(_ completion: @escaping Completion) {
    loop.preconditionIsCurrent()
    if let known = Result(asking: { try knownAddress() }) { return completion(known) }
    super.start(completion)
  }

  override var mayBlock: Bool { true }

  override var request: UnsafeMutablePointer<uv_req_t>? {
    UnsafeMutableRawPointer(lookUp).assumingMemoryBound(to: uv_req_t.self)
  }

  override func submit(_ data: UnsafeMutableRawPointer) -> CInt {
    lookUp.pointee.data = data
    var hints = addrinfo()
    hints.ai_socktype = CInt(SOCK_STREAM.rawValue)
    return uv_getaddrinfo(loop.uv, lookUp, lookUpDidFinish, host, nil, &hints)
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

  fileprivate func finishLookUp(
    _ status: CInt, _ list: UnsafeMutablePointer<addrinfo>?
  ) {
    self.list = list
    poolRequestIsDone(lookUp.pointee.data, Int(status))
  }

  override func result(_ status: Int) -> Result<[SocketAddress], any Error> {
    defer {
      uv_freeaddrinfo(list)
      list = nil
    }
    guard status == 0 else { return .failure(error(status)) }
    return .success(addresses(in: list))
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
  let resolve = Unmanaged<AnyPoolRequest>.fromOpaque(request!.pointee.data).takeUnretainedValue()
  unsafeDowncast(resolve, to: ResolveRequest.self).finishLookUp(status, list)
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
    try await core.value(of: ResolveRequest(loop: core, host: host, port: port))
  }
}
