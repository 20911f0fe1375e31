import Foundation
import Synchronization
import TestSupport

/// Two threads that meet once a round, and then do each its own to what the round is about.
///
/// They begin at the same moment, but for a short while by which one is late, which changes from round to round, so that
/// every point of the one comes against every point of the other. Neither holds its argument any longer than its block.
final class Race<Subject: Sendable>: Sendable {
  private let meetings = Atomic<Int>(0)
  private let firstSubject = Guarded<Subject?>(nil)
  private let secondSubject = Guarded<Subject?>(nil)
  private let first: @Sendable (Subject) -> Void
  private let second: @Sendable (Subject) -> Void
  private let latest: Duration

  init(
    latest: Duration = .microseconds(2), _ first: @escaping @Sendable (Subject) -> Void,
    against second: @escaping @Sendable (Subject) -> Void
  ) {
    self.first = first
    self.second = second
    self.latest = latest
  }

  /// Runs all rounds: `prepare` makes the subject of each, and `check` looks at it when both threads have ended.
  func run(
    _ prepare: @escaping @Sendable (_ round: Int) -> Subject,
    check: (@Sendable (Subject) -> Void)? = nil
  ) async {
    await onThreads(2) { thread in
      var generator = SeededGenerator(UInt64(thread))
      for round in 0..<rounds {
        let checked = thread == 0 ? self.begin(with: prepare(round), keeps: check != nil) : nil
        self.meet(2 * round + 1)
        let lateness = self.latest * Double.random(in: 0..<1, using: &generator)
        if round / 8 % 2 == thread { keepBusy(for: lateness) }
        self.act(thread)
        self.meet(2 * round + 2)
        if let checked { check?(checked) }
      }
    }
  }

  /// Returns the subject if the caller is to keep it.
  private func begin(with subject: Subject, keeps: Bool) -> Subject? {
    firstSubject.update { $0 = subject }
    secondSubject.update { $0 = subject }
    return keeps ? subject : nil
  }

  private func act(_ thread: Int) {
    thread == 0 ? first(firstSubject.take()) : second(secondSubject.take())
  }

  private func meet(_ number: Int) {
    meetings.add(1, ordering: .acquiringAndReleasing)
    var turns = 0
    while meetings.load(ordering: .acquiring) < 2 * number {
      turns += 1
      if turns > 200 { sched_yield() }
    }
  }
}

extension Guarded {
  /// Takes out what is there.
  func take<Wrapped>() -> Wrapped where Value == Wrapped? {
    var taken: Wrapped?
    update { swap(&$0, &taken) }
    return taken!
  }
}

extension Operation {
  /// Waits for an end that is about to come, without the time that sleeping and waking takes.
  func spinUntilFinished() {
    while !isFinished { sched_yield() }
  }
}
