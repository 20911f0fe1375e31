import Foundation
import TestSupport
import Testing
import UVOperations

/// Chains of operations, each of which depends on the one before, so long that anything that nests or stays behind shows.
@Suite(.timeLimit(.minutes(2)))
struct ChainTests {
  @Test func aVeryLongChainEndsAndLeavesNothingInMemory() async {
    let result = await #expect(processExitsWith: .success, observing: childOutput) {
      endThisProcessIfItHangs()
      await runChain()
      var grows = true
      // What stays behind adds up every time, what the allocator has not given back does not.
      for _ in 0..<3 where grows {
        let before = residentMebibytes()
        await runChain()
        grows = residentMebibytes() - before >= 8
      }
      // The sanitizers keep what is freed.
      #expect(isSanitized || !grows)
    }
    expectNoComplaint(result)
  }

  /// Each operation holds the one before, and nobody else does.
  @Test func aVeryLongChainThatNeverRanIsReleasedOneByOne() async {
    let result = await #expect(processExitsWith: .success, observing: childOutput) {
      endThisProcessIfItHangs()
      let counts = Counts()
      await onThread {
        var last = makeCounted(0, counts, .inMain)
        for index in 1..<length {
          let next = makeCounted(index, counts, .inMain)
          next.addDependency(last)
          last = next
        }
      }
      #expect(counts.gone.value == length)
    }
    expectNoComplaint(result)
  }
}

#if DEBUG
  private let length = 20_000
#else
  private let length = 200_000
#endif

private func runChain() async {
  let counts = Counts()
  let queue = OperationQueue()
  // Foundation looks at every operation that waits while it may start another: one at a time is not quadratic.
  queue.maxConcurrentOperationCount = 1
  var last = await onThread {
    var last = makeCounted(0, counts, .elsewhere)
    queue.addOperation(last)
    for index in 1..<length {
      let next = makeCounted(index, counts, index % 3 == 0 ? .elsewhere : .inMain)
      next.addDependency(last)
      queue.addOperation(next)
      last = next
    }
    last.waitUntilFinished()
    return last as (any CountedOperation)?
  }
  // The last one holds none of those before.
  await eventually { counts.gone.value == length - 1 }
  #expect(last?.dependencies == [])
  last = nil
  await counts.expectEachOnce(length, in: queue)
}

/// What the process has in memory, after everything that is free was given back.
private func residentMebibytes() -> Int {
  // The Glibc module does not show this function.
  typealias Trim = @convention(c) (_ padding: Int) -> CInt
  let trim = dlsym(nil, "malloc_trim").map { unsafeBitCast($0, to: Trim.self) }
  _ = trim!(0)
  let statm = try! String(contentsOfFile: "/proc/self/statm", encoding: .utf8)
  let pages = Int(statm.split(separator: " ")[1])!
  return pages * sysconf(CInt(_SC_PAGESIZE)) / (1 << 20)
}

private let isSanitized = dlsym(nil, "__tsan_init") != nil || dlsym(nil, "__asan_init") != nil
