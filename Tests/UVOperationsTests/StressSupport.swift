import Foundation
import Testing

/// How often a race is run: very often where it is quick, less often where every step is checked.
#if DEBUG
  let rounds = 2_000
#else
  let rounds = 100_000
#endif

/// What the parent of an exit test looks at afterwards.
let childOutput: [any PartialKeyPath<ExitTest.Result> & Sendable] = [
  \.standardOutputContent, \.standardErrorContent,
]

/// Ends a child process that hangs, which its parent would wait for: nothing in it has a time limit by itself.
func endThisProcessIfItHangs() { alarm(110) }

/// Foundation complains on standard output, in lines that begin with three stars, and goes on.
func expectNoComplaint(
  _ result: ExitTest.Result?, sourceLocation: SourceLocation = #_sourceLocation
) {
  guard let result else { return }  // The expectation that the child succeeds has failed.
  let output = String(decoding: result.standardOutputContent, as: UTF8.self)
  let complaints = output.split(separator: "\n").filter { $0.hasPrefix("***") }
  #expect(complaints.isEmpty, sourceLocation: sourceLocation)
}

/// The same numbers for the same seed, so that a failure can be had again.
struct SeededGenerator: RandomNumberGenerator {
  private var state: UInt64
  init(_ seed: UInt64) { state = seed }

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }
}
