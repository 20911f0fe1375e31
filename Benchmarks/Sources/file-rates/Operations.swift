import Foundation
import UV
import UVOperations

/// The random reads by operations.
extension Work {
  /// - Parameter queue: Where the operations run; `nil` starts them on the loop's thread.
  func randomOperations(in queue: OperationQueue? = nil) async throws -> Double {
    try await rateOfRandomReads { file, random, reads in
      try await withUnsafeThrowingContinuation { continuation in
        Chain(of: reads, file, random, in: queue, continuation).next()
      }
    }
  }
}

/// One operation after the other.
// Unchecked: an operation that has finished starts the next, so no two use this at a time.
private final class Chain: @unchecked Sendable {
  private let file: File
  private let queue: OperationQueue?
  private let continuation: UnsafeContinuation<UInt64, any Error>
  private var random: RandomBlocks
  private var left: Int
  private var sum: UInt64 = 0

  init(
    of reads: Int, _ file: File, _ random: RandomBlocks, in queue: OperationQueue?,
    _ continuation: UnsafeContinuation<UInt64, any Error>
  ) {
    self.file = file
    self.random = random
    self.queue = queue
    self.continuation = continuation
    left = reads
  }

  func next() {
    guard left > 0 else { return continuation.resume(returning: sum) }
    left -= 1
    let read = ReadFileOperation(from: self.file, upTo: blockSize, at: random.next() * blockSize)
    read.whenFinished { self.take($0) }
    if let queue { queue.addOperation(read) } else { read.start() }
  }

  private func take(_ result: Result<[UInt8], any Error>) {
    switch result {
    case .failure(let error):
      continuation.resume(throwing: error)
    case .success(let bytes):
      check(bytes.count == blockSize, "a short read")
      sum &+= bytes.withUnsafeBytes { firstWord($0) }
      next()
    }
  }
}
