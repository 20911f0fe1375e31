import Testing
import TestSupport
import UV

@Suite(.timeLimit(.minutes(1))) struct EventLoopTests {
  @Test func runReturnsTheValueOfItsClosure() async throws {
    try await withLoop { loop in
      #expect(try await loop.run { 42 } == 42)
    }
  }
}
