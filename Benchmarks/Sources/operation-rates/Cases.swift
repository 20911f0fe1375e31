import Foundation
import UV
import UVOperations

/// One thing that is measured.
struct Case: Sendable {
  let name: String
  /// What the ratio should be at least, where that was decided.
  var goal: Double?
  /// Runs so many operations and returns how long it took.
  let run: @Sendable (Int) -> Duration
}

/// Cases that run next to each other in every round. The first is what the others are compared with.
struct Comparison: Sendable {
  let name: String
  /// One operation at a time takes so much longer that it gets a part of the operations.
  var share = 1.0
  let cases: [Case]

  func title(of test: Case) -> String { "\(name): \(test.name)" }

  /// Leaves out the cases without `text` in their title.
  func only(_ text: String?) -> Comparison {
    guard let text else { return self }
    let left = cases.filter { title(of: $0).contains(text) }
    return Comparison(name: name, share: share, cases: left)
  }
}

/// The three kinds of operations, many in flight.
private func kinds(
  _ run: @escaping @Sendable (Int, @escaping @Sendable () -> Operation) -> Duration
) -> [Case] {
  [
    Case(name: "BlockOperation") { run($0) { BlockOperation {} } },
    Case(name: "LoopVisit", goal: 1) { total in
      withLoop(total) { loop in run(total) { LoopVisit(to: loop) } }
    },
    Case(name: "TimerOperation(after: .zero)") { total in
      withLoop(total) { loop in run(total) { TimerOperation(after: .zero, on: loop) } }
    },
  ]
}

let comparisons = [
  Comparison(
    name: "\(width) chains",
    cases: kinds { chained($0, make: $1) } + [
      // What only ours have: a handler that dispatch need not be asked to call.
      Case(name: "LoopVisit, by whenFinished", goal: 1) { total in
        withLoop(total) { loop in
          chained(total) {
            LoopVisit(to: loop)
          } handle: {
            $0.whenFinished($1)
          }
        }
      }
    ]),
  Comparison(name: "batches of \(width)", cases: kinds { batched($0, make: $1) }),
  Comparison(
    name: "one at a time", share: 0.2,
    cases: [
      Case(name: "LoopVisit, ordinary queue") { total in
        withLoop(total) { loop in
          let queue = OperationQueue()
          return oneAtATime(total, on: loop) { queue.addOperation($0) }
        }
      },
      Case(name: "LoopVisit, queue on the main loop", goal: 4) { total in
        withMainLoop(total) { loop in
          let queue = OperationQueue(on: loop)
          return oneAtATime(total, on: loop) { queue.addOperation($0) }
        }
      },
      Case(name: "LoopVisit, start()") { total in
        withLoop(total) { loop in oneAtATime(total, on: loop) { $0.start() } }
      },
      Case(name: "BlockOperation, ordinary queue") { total in
        chained(total, inFlight: 1) { BlockOperation {} }
      },
    ]),
]
