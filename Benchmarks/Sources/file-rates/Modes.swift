import Foundation

/// One thing that is measured.
struct Mode: Sendable {
  /// What file-rates-c calls it, or that, a hyphen and how it is done here.
  let name: String
  let unit: String
  /// Called on the loop's thread. Returns the figure, once the result of the work was found right.
  let measure: @Sendable (Work) async throws -> Double
}

let modes = [
  Mode(name: "write", unit: "MiB/s") { try await $0.write() },
  Mode(name: "write-array", unit: "MiB/s") { try await $0.writeArray() },
  Mode(name: "read", unit: "MiB/s") { try await $0.read() },
  Mode(name: "read-chunks", unit: "MiB/s") { try await $0.readChunks() },
  Mode(name: "random", unit: "reads/s") { try await $0.random() },
  Mode(name: "random-array", unit: "reads/s") { try await $0.randomArrays() },
  Mode(name: "random-operations", unit: "reads/s") { try await $0.randomOperations() },
  Mode(name: "random-queue", unit: "reads/s") {
    try await $0.randomOperations(in: OperationQueue())
  },
  Mode(name: "stat", unit: "files/s") { try await $0.stat() },
  Mode(name: "verify", unit: "MiB/s") { try await $0.verify() },
  Mode(name: "verify-operations", unit: "MiB/s") { try await $0.verifyOperations() },
  Mode(name: "memory", unit: "MiB") { try await $0.memory() },
]
