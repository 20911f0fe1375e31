internal import CUV
internal import Glibc
internal import Synchronization

extension FileCore {
  /// What libuv is asked for in one call; the kernel stops just below 2 GiB.
  package static let transferLimit = 16 << 20
}

/// A libuv status that is an error.
struct Failure: Error {
  let status: CInt
}

/// Where bytes are read from. On a thread of the pool.
struct FileInput {
  let descriptor: CInt
  /// Whether to go on until there is nothing more, or to return what one call brings.
  let untilFull: Bool

  func bytes(
    upTo limit: Int, at offset: Int?, _ isStopped: borrowing Atomic<Bool>
  ) -> Result<[UInt8], Failure> {
    var bytes: [UInt8] = []
    var step = firstStep(upTo: limit, at: offset)
    repeat {
      var count = 0
      var failure: Failure?
      let more = [UInt8](unsafeUninitializedCapacity: step) { memory, filled in
        let memory = UnsafeMutableRawBufferPointer(memory)
        switch read(into: memory, at: offset.map { $0 &+ bytes.count }, isStopped) {
        case .success(let read): filled = read
        case .failure(let error): failure = error
        }
        count = filled
      }
      if let failure { return .failure(failure) }
      if bytes.isEmpty { bytes = more } else { bytes += more }
      guard untilFull, count == step, !isStopped.load(ordering: .relaxed) else { break }
      step = min(limit - bytes.count, max(65_536, bytes.count))
    } while bytes.count < limit
    // What stays should not hold much more memory than it needs.
    if bytes.count < bytes.capacity / 2 { bytes = bytes.withUnsafeBytes { Array($0) } }
    return .success(bytes)
  }

  /// How much memory to begin with: a limit may be far beyond what there is to read.
  private func firstStep(upTo limit: Int, at offset: Int?) -> Int {
    guard limit > 1 << 20 else { return limit }
    var request = uv_fs_t()
    defer { uv_fs_req_cleanup(&request) }
    guard uv_fs_fstat(nil, &request, descriptor, nil) == 0 else { return 65_536 }
    let size = Int(clamping: request.statbuf.st_size)
    let left = size.subtractingReportingOverflow(offset ?? 0).partialValue
    // A byte more, to see the end without another round.
    return min(limit, max(65_536, left < Int.max ? left + 1 : left))
  }

  func read(
    into memory: UnsafeMutableRawBufferPointer, at offset: Int?,
    _ isStopped: borrowing Atomic<Bool>
  ) -> Result<Int, Failure> {
    var total = 0
    while total < memory.count {
      if let stopped = stopped(isStopped, after: total) { return stopped }
      var buffer = uv_buf_t(UnsafeMutableRawBufferPointer(rebasing: memory[total...]))
      let count = retrying { request in
        uv_fs_read(
          nil, request, descriptor, &buffer, 1, Int64(offset.map { $0 &+ total } ?? -1), nil)
      }
      guard count >= 0 else {
        return total > 0 ? .success(total) : .failure(Failure(status: CInt(clamping: count)))
      }
      total += count
      if count == 0 || !untilFull { break }
    }
    return .success(total)
  }

  func read(
    into memory: [UnsafeMutableRawBufferPointer], at offset: Int?,
    _ isStopped: borrowing Atomic<Bool>
  ) -> Result<Int, Failure> {
    var left = Vector(memory)
    var total = 0
    while !left.isEmpty {
      if let stopped = stopped(isStopped, after: total) { return stopped }
      let count = left.withNext { buffers in
        retrying { request in
          uv_fs_read(
            nil, request, descriptor, buffers.baseAddress, UInt32(buffers.count),
            Int64(offset.map { $0 &+ total } ?? -1), nil)
        }
      }
      guard count >= 0 else {
        return total > 0 ? .success(total) : .failure(Failure(status: CInt(clamping: count)))
      }
      total += count
      left.drop(count)
      if count == 0 || !untilFull { break }
    }
    return .success(total)
  }

  /// How a read ends, after `total` bytes, if nobody waits for it any more: nothing is not the end of the file. It does not block behind this.
  private func stopped(
    _ isStopped: borrowing Atomic<Bool>, after total: Int
  ) -> Result<Int, Failure>? {
    if !untilFull { waitUntilReadable(isStopped) }
    guard isStopped.load(ordering: .relaxed) else { return nil }
    return total > 0 ? .success(total) : .failure(Failure(status: UV_ECANCELED.rawValue))
  }

  /// Waits until a read would not block or nobody waits for it any more: a read of a pipe cannot be stopped, and its thread and the file
  /// would stay in use for as long as nobody writes.
  private func waitUntilReadable(_ isStopped: borrowing Atomic<Bool>) {
    var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    while !isStopped.load(ordering: .relaxed) {
      let count = poll(&entry, 1, 50)
      if count > 0 || count < 0 && errno != EINTR { return }
    }
  }
}

/// Where bytes are written to. On a thread of the pool.
struct FileOutput {
  let descriptor: CInt
  let offset: Int?
  private(set) var written = 0
  private(set) var failure: CInt?

  init(descriptor: CInt, offset: Int?) {
    self.descriptor = descriptor
    self.offset = offset
  }

  /// As many pieces as stay together are one call. Small ones are put together first, so that there are few.
  mutating func write(_ pieces: [[UInt8]], _ isStopped: borrowing Atomic<Bool>) {
    if pieces.count == 1 { return write(pieces[0], isStopped) }
    var batch: [[UInt8]] = []
    var isLastMerged = false
    var count = 0
    for piece in pieces where !piece.isEmpty {
      if count > 0, count + piece.count > FileCore.transferLimit {
        write(batch[...], [], isStopped)
        batch.removeAll(keepingCapacity: true)
        isLastMerged = false
        count = 0
      }
      count += piece.count
      let isSmall = piece.count < 65_536
      if isSmall, isLastMerged {
        batch[batch.count - 1] += piece
      } else {
        batch.append(piece)
        isLastMerged = isSmall
      }
    }
    write(batch[...], [], isStopped)
  }

  /// Writes `pieces` behind `memory`. Goes as deep as there are pieces in a batch: no more than 512.
  private mutating func write(
    _ pieces: ArraySlice<[UInt8]>, _ memory: [UnsafeRawBufferPointer],
    _ isStopped: borrowing Atomic<Bool>
  ) {
    guard let first = pieces.first else { return write(memory, isStopped) }
    first.withUnsafeBytes { write(pieces.dropFirst(), memory + [$0], isStopped) }
  }

  mutating func write(_ bytes: [UInt8], _ isStopped: borrowing Atomic<Bool>) {
    bytes.withUnsafeBytes { write($0, isStopped) }
  }

  mutating func write(_ memory: UnsafeRawBufferPointer, _ isStopped: borrowing Atomic<Bool>) {
    let before = written
    while written - before < memory.count, failure == nil, !isStopped.load(ordering: .relaxed) {
      let left = UnsafeRawBufferPointer(rebasing: memory[(written - before)...])
      var buffer = uv_buf_t(UnsafeMutableRawBufferPointer(mutating: left))
      note(
        retrying { request in
          uv_fs_write(
            nil, request, descriptor, &buffer, 1, Int64(offset.map { $0 &+ written } ?? -1), nil)
        })
    }
  }

  private mutating func note(_ count: Int) {
    if count > 0 {
      written += count
    } else {
      // Nothing, and no reason: it must not be tried for ever.
      failure = count < 0 ? CInt(clamping: count) : UV_EIO.rawValue
    }
  }

  mutating func write(_ memory: [UnsafeRawBufferPointer], _ isStopped: borrowing Atomic<Bool>) {
    if memory.count == 1 { return write(memory[0], isStopped) }
    var left = Vector(memory.map { UnsafeMutableRawBufferPointer(mutating: $0) })
    while !left.isEmpty, failure == nil, !isStopped.load(ordering: .relaxed) {
      let count = left.withNext { buffers in
        retrying { request in
          uv_fs_write(
            nil, request, descriptor, buffers.baseAddress, UInt32(buffers.count),
            Int64(offset.map { $0 &+ written } ?? -1), nil)
        }
      }
      note(count)
      left.drop(max(0, count))
    }
  }
}

extension uv_buf_t {
  /// As much of `memory`, which is not empty, as one call takes.
  fileprivate init(_ memory: UnsafeMutableRawBufferPointer) {
    self.init(
      base: memory.baseAddress!.assumingMemoryBound(to: CChar.self),
      len: min(memory.count, FileCore.transferLimit))
  }
}

/// Makes a call of libuv that waits here for its end, again when a signal has interrupted it.
func retrying(_ call: (UnsafeMutablePointer<uv_fs_t>) -> CInt) -> Int {
  while true {
    var request = uv_fs_t()
    let status = Int(call(&request))
    // The status is cut to 32 bits, the result is not.
    let result = status < 0 ? status : request.result
    uv_fs_req_cleanup(&request)
    if result != Int(UV_EINTR.rawValue) { return result }
  }
}

/// Pieces of memory, of which the first are done with.
private struct Vector {
  private var buffers: ArraySlice<uv_buf_t>

  init(_ memory: [UnsafeMutableRawBufferPointer]) {
    buffers = ArraySlice(
      memory.lazy.filter { !$0.isEmpty }.map {
        uv_buf_t(base: $0.baseAddress!.assumingMemoryBound(to: CChar.self), len: $0.count)
      })
  }

  var isEmpty: Bool { buffers.isEmpty }

  /// Calls `body` with what fits into one call: as many pieces as the system takes, and no more bytes than are worth one.
  func withNext(_ body: (UnsafeMutableBufferPointer<uv_buf_t>) -> Int) -> Int {
    var next: [uv_buf_t] = []
    var room = FileCore.transferLimit
    for buffer in buffers where room > 0 && next.count < 1_024 {
      next.append(uv_buf_t(base: buffer.base, len: min(buffer.len, room)))
      room -= next.last!.len
    }
    return next.withUnsafeMutableBufferPointer { body($0) }
  }

  mutating func drop(_ count: Int) {
    var count = count
    while count > 0, let first = buffers.first {
      guard count < first.len else {
        count -= first.len
        buffers.removeFirst()
        continue
      }
      buffers[buffers.startIndex] = uv_buf_t(base: first.base + count, len: first.len - count)
      return
    }
  }
}
