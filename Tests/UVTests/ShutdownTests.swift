import Glibc
import TestSupport
import Testing
import UV

/// The end of a loop.
@Suite(.timeLimit(.minutes(1))) struct ShutdownTests {
  @Test(arguments: 1...5)
  func aJobThatRacesTheShutdownIsRefusedOrRuns(_ round: Int) async throws {
    for _ in 0..<60 {
      let loop = try EventLoop()
      let accepted = Tally()
      let ran = Tally()
      let ready = Tally()
      async let submitters: Void = onThreads(4) { _ in
        ready.add()
        // Until the loop refuses.
        while (try? loop.execute { ran.add() }) != nil {
          accepted.add()
        }
      }
      await eventually("all submit") { ready.value == 4 }
      await loop.shutdown()
      await submitters
      #expect(ran.value == accepted.value)
      #expect(throws: EventLoopClosed.self) { try loop.execute {} }
    }
  }

  @Test func workTakenDuringAShutdownLosesNoTask() async throws {
    for _ in 0..<20 {
      let loop = try EventLoop()
      let started = Tally()
      let finished = Tally()
      let isOver = Event()
      // Keeps the last jobs from ever being all done.
      let hog = Task(executorPreference: loop) { while !isOver.isSet { await Task.yield() } }
      async let submitters: Void = onThreads(4) { _ in
        let given = Tally()
        let taken = Tally()
        let work = { @Sendable in
          started.add()
          Task(executorPreference: loop) { finished.add() }
          taken.add()
        }
        while loop.core.perform(work) {
          given.add()
          while taken.value < given.value { sched_yield() }
        }
      }
      await loop.shutdown()
      await submitters
      isOver.set()
      await hog.value
      await eventually("every task has finished") {
        finished.value == started.value
      }
    }
  }

  @Test func everythingNewIsRefusedAfterwards() async throws {
    let loop = try EventLoop()
    let timer = try loop.schedule(after: .seconds(60)) {}
    await loop.shutdown()
    #expect(throws: EventLoopClosed.self) { try loop.execute {} }
    #expect(throws: EventLoopClosed.self) { try loop.schedule(after: .zero) {} }
    #expect(throws: EventLoopClosed.self) { try loop.schedule(every: .seconds(1)) { _ in } }
    #expect(throws: EventLoopClosed.self) { _ = try loop.observe(.windowChange) { _ in } }
    #expect(throws: EventLoopClosed.self) { _ = try loop.signals(.windowChange) }
    await #expect(throws: EventLoopClosed.self) { try await loop.waitUntilSignal(.windowChange) }
    await #expect(throws: EventLoopClosed.self) { try await loop.run {} }
    await #expect(throws: EventLoopClosed.self) { try await loop.sleep(for: .zero) }
    await #expect(throws: EventLoopClosed.self) { try await loop.resolve("localhost", port: 1) }
    timer.cancel()
    timer.reschedule(after: .zero)
    #expect(!loop.isCurrent)
    #expect(loop.statistics.handles == 0)
  }

  @Test func shutdownMayBeCalledAgainAndAtOnce() async throws {
    // Many times: the last of the calls must also meet a loop that is running its last jobs.
    for _ in 0..<200 {
      let loop = try EventLoop()
      await withTaskGroup(of: Void.self) { group in
        for _ in 0..<20 { group.addTask { await loop.shutdown() } }
      }
      await loop.shutdown()
      await onThreads(4) { _ in loop.shutdownAndWait() }
    }
  }

  @Test func aTaskOnTheLoopMayShutItDown() async throws {
    let loop = try EventLoop()
    let isOnLoop = await Task(executorPreference: loop) {
      await loop.shutdown()
      return loop.isCurrent
    }.value
    #expect(!isOnLoop)
    #expect(throws: EventLoopClosed.self) { try loop.execute {} }
  }

  @Test func theShortestGracePeriodCounts() async throws {
    let loop = try EventLoop()
    try await TCPListener.withListener(on: .loopback(port: 0), loop: loop) { listener in
      async let accepted = listener.accept()
      let near = try await TCPStream.connect(to: listener.localAddress, loop: loop)
      let far = try await accepted
      async let patient: Void = loop.shutdown(gracePeriod: .seconds(3_600))
      await loop.shutdown()
      await patient
      withExtendedLifetime((near, far)) {}
    }
  }

  @Test func aTaskThatWaitsGoesOnAfterTheLoopHasClosed() async throws {
    let loop = try EventLoop()
    let event = Event()
    let tasks = (0..<100).map { _ in
      Task(executorPreference: loop) {
        await event.wait()
        await #expect(throws: EventLoopClosed.self) { try await loop.sleep(for: .zero) }
        return loop.isCurrent
      }
    }
    await loop.shutdown()
    event.set()
    for task in tasks { #expect(await !task.value) }
  }

  @Test func tasksOfAClosedLoopRunOneAtATime() async throws {
    let loop = try EventLoop()
    let counter = LoopCounter(on: loop)
    await loop.shutdown()
    let running = Tally()
    let overlaps = Tally()
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<1_000 {
        group.addTask { await counter.increment() }
        group.addTask(executorPreference: loop) {
          if running.add() > 1 { overlaps.add() }
          running.add(-1)
        }
      }
    }
    #expect(await counter.count == 1_000)
    #expect(overlaps.value == 0)
    // The actor's own promise holds there as well.
    await Task { await counter.checkIsolation() }.value
  }

  @Test func aTaskThatKeepsYieldingDoesNotHoldTheShutdown() async throws {
    let loop = try EventLoop()
    let isOver = Event()
    let task = Task(executorPreference: loop) { while !isOver.isSet { await Task.yield() } }
    await loop.shutdown()
    isOver.set()
    await task.value
  }

  @Test func aLoopThatIsDroppedEnds() async throws {
    func drop() throws -> WeakLoop {
      let loop = try EventLoop()
      try loop.schedule(after: .seconds(3_600)) {}
      return WeakLoop(loop)
    }
    for _ in 0..<50 {
      let witness = try drop()
      await expectGone("the loop") { witness.isAlive }
    }
  }

  @Test func aLoopMayBeDroppedByItsOwnThread() async throws {
    func drop() throws -> WeakLoop {
      let loop = try EventLoop()
      try loop.execute { _ = loop.isCurrent }  // The last holder, most times.
      return WeakLoop(loop)
    }
    for _ in 0..<200 {
      let witness = try drop()
      await expectGone("the loop") { witness.isAlive }
    }
  }

  @Test func aTaskKeepsTheLoopItPrefers() async throws {
    let event = Event()
    func start() throws -> (Task<Bool, Never>, WeakLoop) {
      let loop = try EventLoop()
      let task = Task(executorPreference: loop) {
        await event.wait()
        return true
      }
      return (task, WeakLoop(loop))
    }
    var (task, witness) = try start()
    event.set()
    #expect(await task.value)
    task = Task { true }
    await expectGone("the loop") { witness.isAlive }
  }

  @Test func sleepersAndLookUpsEndWithTheLoop() async throws {
    for _ in 0..<20 {
      let loop = try EventLoop()
      let sleepers = (0..<50).map { _ in Task { try await loop.sleep(for: .seconds(3_600)) } }
      let lookUps = (0..<10).map { number in
        // `localhost` is looked up without a name server, which may take its time.
        Task { try await loop.resolve("localhost", port: number) }
      }
      await eventually("the sleepers sleep") { loop.statistics.handles == 50 }
      await loop.shutdown()
      for sleeper in sleepers {
        await #expect(throws: EventLoopClosed.self) { try await sleeper.value }
      }
      for lookUp in lookUps {
        do {
          #expect(try await !lookUp.value.isEmpty)  // It was quicker.
        } catch {
          #expect(error is EventLoopClosed)
        }
      }
    }
  }

  @Test func waitingForTheEndOnTheLoopsOwnThreadTraps() async throws {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let loop = try EventLoop()
      try await loop.run { loop.shutdownAndWait() }
    }
    expectMessage("use shutdown", in: result)
  }

  @Test func theSharedLoopCannotBeShutDown() async throws {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      await EventLoop.shared.shutdown()
    }
    expectMessage("make a loop of your own", in: result)
  }
}

extension LoopCounter {
  fileprivate func checkIsolation() {
    preconditionIsolated()
    assumeIsolated { _ in }
  }
}
