import Foundation
import TestSupport
import Testing
import UVOperations

/// Thousands of operations, ours and Foundation's, depend on each other at random over three queues.
@Suite(.timeLimit(.minutes(2)))
struct GraphTests {
  @Test func noOperationOfARandomGraphBeginsBeforeItsDependencies() async {
    let seed = UInt64.random(in: 0 ... .max)
    let result = await #expect(processExitsWith: .success, observing: childOutput) {
      [seed = seed as UInt64] in
      endThisProcessIfItHangs()
      await Graph(seed: seed).run(cancels: false)
    }
    expectNoComplaint(result)
    if result == nil { Issue.record("The seed was \(seed).") }
  }

  @Test func aRandomGraphDrainsWhenAThirdIsCancelled() async {
    let seed = UInt64.random(in: 0 ... .max)
    let result = await #expect(processExitsWith: .success, observing: childOutput) {
      [seed = seed as UInt64] in
      endThisProcessIfItHangs()
      await Graph(seed: seed).run(cancels: true)
    }
    expectNoComplaint(result)
    if result == nil { Issue.record("The seed was \(seed).") }
  }
}

/// What the operations of a graph have in common.
private final class Progress: Sendable {
  let began = Counter()
  let finished = Counter()
  let tooEarly = Counter()
  let gone = Counter()
}

/// One operation of a graph, with what its `main()` checks.
///
/// The proof for `Sendable`: the operation and the dependencies are written while the graph is made, before anything runs.
private final class Node: @unchecked Sendable {
  let isOurs: Bool
  private(set) var operation: Operation!
  private(set) var dependencies: [Node] = []
  private let progress: Progress
  private let pause: Int

  init(isOurs: Bool, pause: Int, _ progress: Progress) {
    self.isOurs = isOurs
    self.pause = pause
    self.progress = progress
    // The operations hold this node's block, and the graph breaks the cycle.
    operation = isOurs ? OurNode(progress) { self.begin() } : ForeignNode(progress) { self.begin() }
    operation.completionBlock = { [progress] in progress.finished.increment() }
  }

  func depend(on node: Node) {
    dependencies.append(node)
    operation.addDependency(node.operation)
  }

  /// Foundation makes an operation of its own ready as soon as it is cancelled, so that may begin early.
  private func begin() {
    progress.began.increment()
    let isLate = dependencies.allSatisfy { $0.operation.isFinished }
    if !isLate && (isOurs || !operation.isCancelled) { progress.tooEarly.increment() }
    guard let work = operation as? OurNode else { return }
    if pause == 0 { return work.finish() }
    DispatchQueue.global().asyncAfter(deadline: .now() + .microseconds(pause)) { work.finish() }
  }

  func forget() {
    dependencies = []
    operation = nil
  }
}

private final class OurNode: AsynchronousOperation, @unchecked Sendable {
  private let progress: Progress
  private let body: @Sendable () -> Void
  init(_ progress: Progress, _ body: @escaping @Sendable () -> Void) {
    self.progress = progress
    self.body = body
  }
  deinit { progress.gone.increment() }
  override func main() { body() }
}

private final class ForeignNode: BlockOperation, @unchecked Sendable {
  private let progress: Progress
  init(_ progress: Progress, _ body: @escaping @Sendable () -> Void) {
    self.progress = progress
    super.init()
    addExecutionBlock(body)
  }
  deinit { progress.gone.increment() }
}

/// Operations and the queues that they run in, made from a seed.
///
/// The graph holds its operations until all have finished, because Foundation does not retain dependents.
private final class Graph: Sendable {
  private static let size = 5_000
  private let seed: UInt64
  private let progress = Progress()
  private let nodes: Guarded<[Node]>
  private let queues = [1, 4, OperationQueue.defaultMaxConcurrentOperationCount].map { limit in
    let queue = OperationQueue()
    queue.maxConcurrentOperationCount = limit
    return queue
  }

  init(seed: UInt64) {
    self.seed = seed
    var generator = SeededGenerator(seed)
    var nodes: [Node] = []
    // How many edges there are of each kind: from ours or not, to ours or not.
    var edges = [0, 0, 0, 0]
    for index in 0..<Graph.size {
      let pause = Int.random(in: 0..<3, using: &generator) * 50
      let node = Node(isOurs: .random(using: &generator), pause: pause, progress)
      for _ in 0..<(index == 0 ? 0 : Int.random(in: 0...4, using: &generator)) {
        // Some long edges and many short ones, so that there are long paths and wide places.
        let reach = Bool.random(using: &generator) ? index : min(index, 50)
        let other = nodes[index - Int.random(in: 1...reach, using: &generator)]
        node.depend(on: other)
        edges[(node.isOurs ? 2 : 0) + (other.isOurs ? 1 : 0)] += 1
      }
      nodes.append(node)
    }
    #expect(edges.allSatisfy { $0 > 1_000 })
    self.nodes = Guarded(nodes)
  }

  func run(cancels: Bool) async {
    await onThreads(cancels ? 2 : 1) { thread in
      thread == 0 ? self.enqueue() : self.cancelAThird()
    }
    await onThread { for queue in self.queues { queue.waitUntilAllOperationsAreFinished() } }
    await eventually { progress.finished.value >= Graph.size }
    #expect(progress.finished.value == Graph.size, "seed \(seed)")
    #expect(progress.tooEarly.value == 0, "seed \(seed)")
    if !cancels { #expect(progress.began.value == Graph.size, "seed \(seed)") }
    #expect(queues.allSatisfy { $0.operationCount == 0 }, "seed \(seed)")
    #expect(nodes.value.allSatisfy { $0.operation.isFinished }, "seed \(seed)")
    release()
    await eventually { progress.gone.value == Graph.size }
  }

  /// Adds them in an order that is random, but no more than a part at once: Foundation looks at all that waits in a queue
  /// whenever something has ended.
  private func enqueue() {
    var generator = SeededGenerator(seed &+ 1)
    let nodes = nodes.value
    for part in stride(from: 0, to: Graph.size, by: 500) {
      // Those of the parts before depend on nothing that comes later, so they all finish.
      while progress.finished.value < part - 500 { sched_yield() }
      for node in nodes[part..<part + 500].shuffled(using: &generator) {
        queues.randomElement(using: &generator)!.addOperation(node.operation)
      }
    }
  }

  /// Cancels each when a certain number have finished, from before the first to after the last.
  private func cancelAThird() {
    var generator = SeededGenerator(seed &+ 2)
    let count = Graph.size / 3
    let moments = (0..<count).map { _ in Int.random(in: 0..<Graph.size, using: &generator) }
    let cancelled = nodes.value.shuffled(using: &generator).prefix(count)
    for (node, moment) in zip(cancelled, moments.sorted()) {
      while progress.finished.value < moment { sched_yield() }
      node.operation.cancel()
    }
  }

  /// Lets go of the latest first: Foundation's operations hold their dependencies for ever, and a long path of them would
  /// be released one inside the other.
  private func release() {
    nodes.update { nodes in
      while let last = nodes.popLast() { last.forget() }
    }
  }
}
