import Foundation
import Testing
import UV
import UVOperations

@Suite(.timeLimit(.minutes(1))) struct ReadmeTests {
  @Test func everyExampleIsCompiled() throws {
    let here = URL(filePath: #filePath).deletingLastPathComponent()
    let root = here.deletingLastPathComponent().deletingLastPathComponent()
    let readme = try String(contentsOf: root.appending(path: "README.md"), encoding: .utf8)
    let compiled = try lines(
      String(contentsOf: here.appending(path: "Snippets.swift"), encoding: .utf8))
    let examples = readme.components(separatedBy: "```swift\n").dropFirst()
      .map { lines($0.components(separatedBy: "```")[0]) }
    #expect(examples.count >= 6)
    for example in examples {
      // Each line of an example stands in the compiled code, in the same order.
      var rest = compiled[...]
      for line in example where !line.hasPrefix("import ") {
        guard let index = rest.firstIndex(of: line) else {
          Issue.record("not compiled: \(line)")
          break
        }
        rest = rest[(index + 1)...]
      }
    }
  }

  @Test func theChainOfOperationsGetsItsAnswer() async throws {
    try await TCPListener.withListener(on: .loopback(port: 0)) { listener in
      async let answer = chain(port: listener.localAddress.port)
      let stream = try await listener.accept()
      for try await bytes in stream { try await stream.write(bytes) }
      await stream.close()
      #expect(try await answer == Array("hello\n".utf8))
    }
  }

  @Test func timersOperationsAndActorsWorkAsShown() async throws {
    let loop = try EventLoop()
    try await timers(on: loop)
    #expect(try await OperationQueue().run(Measure()) == 21)
    #expect(await Session(on: loop).isOnLoop())
    await loop.shutdown()
  }

  private func lines(_ text: String) -> [String] {
    text.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }.filter {
      !$0.isEmpty
    }
  }
}
