import UV

/// What the modes have in common.
struct Work: Sendable {
  let options: Options
  let loop: EventLoop

  init(_ options: Options, _ loop: EventLoop) {
    self.options = options
    self.loop = loop
  }

  /// Of the file that file-rates-c has made.
  var content: FilePath { path("content") }

  /// Of a file that the writing modes make and remove.
  var written: FilePath { path("written") }

  func path(_ name: String) -> FilePath { FilePath(options.directory).appending(FilePath(name)) }

  var mebibytes: Double { Double(options.bytes) / Double(chunkSize) }
}

let blockSize = 4_096
let chunkSize = 1 << 20
/// How many requests are in flight where there are many.
let laneCount = 16

private let factor: UInt64 = 0x9E37_79B9_7F4A_7C15

/// What the block with this number begins with.
func word(ofBlock number: Int) -> UInt64 { UInt64(number) &* factor }

func firstWord(_ bytes: UnsafeRawBufferPointer) -> UInt64 { bytes.loadUnaligned(as: UInt64.self) }

/// The sum of the first words of the blocks.
func sumOfBlocks(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
  var sum: UInt64 = 0
  for at in stride(from: 0, to: bytes.count, by: blockSize) {
    sum &+= bytes.loadUnaligned(fromByteOffset: at, as: UInt64.self)
  }
  return sum
}

/// ``sumOfBlocks(_:)`` of blocks that are numbered from 0 on.
func expectedSum(blocks: Int) -> UInt64 { factor &* UInt64(blocks * (blocks - 1) / 2) }

/// SplitMix64, as the other program has it.
struct RandomBlocks {
  private var state: UInt64
  private let count: UInt64

  init(seed: Int, of count: Int) {
    state = UInt64(seed)
    self.count = UInt64(count)
  }

  mutating func next() -> Int {
    state &+= factor
    var word = state
    word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
    word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
    return Int((word ^ (word >> 31)) % count)
  }
}

/// Runs `body` for each lane at once, in tasks on the loop, and returns the sum and how long it took.
func inLanes(
  on loop: EventLoop, _ body: @escaping @Sendable (Int) async throws -> UInt64
) async throws -> (sum: UInt64, time: Duration) {
  let start = ContinuousClock.now
  let sum = try await withThrowingTaskGroup(of: UInt64.self) { group in
    for lane in 0..<laneCount {
      group.addTask(executorPreference: loop) {
        loop.preconditionIsCurrent()
        return try await body(lane)
      }
    }
    return try await group.reduce(0, &+)
  }
  return (sum, start.duration(to: .now))
}

extension Duration {
  var inSeconds: Double { self / .seconds(1) }
}
