import Foundation
import Testing
import UV
import UVOperations

@Suite(.timeLimit(.minutes(1))) struct ReadmeTests {
  @Test func everyExampleIsCompiled() throws {
    let here = URL(filePath: #filePath).deletingLastPathComponent()
    let root = here.deletingLastPathComponent().deletingLastPathComponent()
    let readme = try String(contentsOf: root.appending(path: "README.md"), encoding: .utf8)
    let compiled = try [
      here.appending(path: "Snippets.swift"),
      root.appending(path: "Examples/TimerOperations/main.swift"),
    ].map { try lines(String(contentsOf: $0, encoding: .utf8)) }
    let examples = readme.components(separatedBy: "```swift\n").dropFirst()
      .map { lines($0.components(separatedBy: "```")[0]) }
    #expect(examples.count >= 6)
    for example in examples {
      #expect(compiled.contains { $0.contains(example) }, "not compiled: \(example)")
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

  @Test func theTwoEchoesAndTheClientWorkAsShown() async throws {
    try await TCPListener.withListener(on: .loopback(port: 0)) { listener in
      async let answer = ask(port: listener.localAddress.port)
      let stream = try await listener.accept()
      try await oneEcho(of: stream)
      let text = try await answer
      #expect(text == "hello")
      await stream.close()
    }
  }

  @Test func timersOperationsAndActorsWorkAsShown() async throws {
    let loop = try EventLoop()
    try await TCPListener.withListener(on: .loopback(port: 0), loop: loop) { listener in
      async let near = TCPStream.connect(to: listener.localAddress, loop: loop)
      let far = try await listener.accept()
      try await far.write("words\n")
      let stream = try await near
      let words = try await timers(on: loop, stream)
      #expect(words == "words")
      await far.close()
      await stream.close()
    }
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

extension [String] {
  /// Whether each line of `example` is here, in the same order.
  fileprivate func contains(_ example: [String]) -> Bool {
    var rest = self[...]
    for line in example where !line.hasPrefix("import ") {
      guard let index = rest.firstIndex(of: line) else { return false }
      rest = rest[(index + 1)...]
    }
    return true
  }
}
