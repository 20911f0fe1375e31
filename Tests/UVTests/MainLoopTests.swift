import TestSupport
import Testing
import UV

/// `EventLoop.main`, and what can only be seen in a process of its own: each scenario is a run of MainLoopProbe.
@Suite(.timeLimit(.minutes(1))) struct MainLoopTests {
  @Test(arguments: [
    "everythingRunsOnTheMainThread",
    "stopFromAnotherThreadEndsAnIdleRun",
    "whatWasNotFinishedGoesOnInTheNextRun",
    "signalsArriveOnTheMainThread",
    "streamsWorkOnTheMainLoop",
    "theProgramsHandlerStaysItsOwn",
    "aPendingSignalDoesNotEndTheProgram",
    "aBlockedSignalStaysBlocked",
    "loopsLeaveNeitherThreadsNorDescriptors",
    "aChildInheritsNoDescriptors",
    "aLoopWithoutDescriptorsIsAnError",
    "operationsRunOnTheMainThreadInOrder",
    "operationsThatKeepAddingOthersLeaveTimersAndBlocksTheirTurns",
    "operationsGoOnInTheNextRun",
    "aQueueThatIsSuspendedBelowWaitsForItsResumption",
  ])
  func scenarioHolds(_ name: String) async throws {
    let result = try await runProbe("MainLoopProbe", name)
    #expect(result.passed, "\(result.output)")
    #expect(result.output.hasSuffix("done\n"), "\(result.output)")
  }

  @Test func workForAMainLoopThatDoesNotRunIsReported() async {
    await #expect(processExitsWith: .success) {
      let reports = Collected<String>()
      Report.setHandler { reports.append($0) }
      let work = Task { try await EventLoop.main.run { 42 } }
      await eventually("somebody is told") { reports.count == 1 }
      #expect(reports.values[0].hasPrefix("EventLoop.main has work, but"))
      work.cancel()
    }
  }

  @Test(arguments: [
    ("aNestedRunTraps", "called inside itself"),
    ("aRunOffTheMainThreadTraps", "must be called on the main thread"),
    ("aRunOfAnotherLoopTraps", "runs on a thread of its own"),
    ("aStopOfAnotherLoopTraps", "end every other loop by shutdown"),
    ("shuttingDownTheMainLoopTraps", "make a loop of your own"),
  ])
  func misuseTraps(_ name: String, _ message: String) async throws {
    let result = try await runProbe("MainLoopProbe", name)
    #expect(result.diedOfSignal, "\(result.output)")
    #expect(result.output.contains(message), "\(result.output)")
  }
}
