/// One thing that is measured.
struct Mode: Sendable {
  /// What loop-rates-c calls it, or that, a hyphen and how it is done here.
  let name: String
  let unit: String
  /// How often the work is done if `--count` says nothing else.
  let count: Int
  /// Called on the loop's thread. Returns how long it took, once the result of the work was found right.
  let measure: @Sendable (Work) async throws -> Duration
}

let modes = [
  Mode(name: "timers", unit: "timers/s", count: 1_000_000) { try await $0.timers() },
  Mode(name: "timers-cancel", unit: "timers/s", count: 1_000_000) {
    try await $0.cancelledTimers()
  },
  Mode(name: "execute", unit: "jobs/s", count: 1_000_000) { await $0.execute() },
  Mode(name: "execute-dispatch", unit: "jobs/s", count: 1_000_000) { await $0.dispatch() },
  Mode(name: "execute-4", unit: "jobs/s", count: 1_000_000) { await $0.execute(threads: 4) },
  Mode(name: "execute-4-dispatch", unit: "jobs/s", count: 1_000_000) {
    await $0.dispatch(threads: 4)
  },
  Mode(name: "hop", unit: "hops/s", count: 200_000) { try await $0.hops() },
  Mode(name: "churn", unit: "connections/s", count: 20_000) { try await $0.churn() },
]
