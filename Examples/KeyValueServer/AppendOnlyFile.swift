import Glibc
import UV

/// When a change is brought to the device that the file is on.
enum SyncPolicy: String, Sendable {
  /// Before anybody is answered.
  case always
  case everySecond = "everysec"
  /// When the system does it.
  case never = "no"
}

/// The file that every change is written to, as the command that makes it.
///
/// Loop thread only. What is appended in one turn of the loop, and while a write is under way, becomes one write. A file that cannot be written
/// ends the process: a server that went on would promise what it cannot keep.
// Unchecked: only its own tasks and timer take it elsewhere, and they run on the loop's thread.
final class AppendOnlyFile: @unchecked Sendable {
  /// Clients wait when so much is waiting to be written.
  private static let highWaterMark = 16 << 20

  private struct Waiter {
    let position: Int
    let continuation: UnsafeContinuation<Void, Never>
  }

  private let file: File
  private let policy: SyncPolicy
  private var pending = RESPBuffer()
  private var isWriting = false
  private var isSyncing = false
  private var timer: LoopTimer?
  private var waiters: [Waiter] = []
  // How many bytes were appended since the start, and how many of them are where the policy wants them, and on the device.
  private var appended = 0
  private var written = 0
  private var synced = 0

  /// Takes over `file`, which ends with a whole command.
  init(_ file: File, _ policy: SyncPolicy) throws {
    self.file = file
    self.policy = policy
    guard policy == .everySecond else { return }
    timer = try file.loop.schedule(every: .seconds(1)) { [weak self] _ in self?.syncIfNeeded() }
  }

  /// Appends a command. It is written soon.
  func append(_ write: (inout RESPBuffer) -> Void) {
    let before = pending.count
    write(&pending)
    appended += pending.count - before
    guard !isWriting else { return }
    isWriting = true
    Task(executorPreference: file.loop) { await self.writePending() }
  }

  /// Whether what happened up to now must not be told to anybody yet.
  var mustWait: Bool {
    policy == .always ? written < appended : pending.count > AppendOnlyFile.highWaterMark
  }

  /// Returns when what was appended before is in the file, and on the device if that is the policy.
  func waitUntilWritten() async {
    if written == appended { return }
    await withUnsafeContinuation {
      waiters.append(Waiter(position: appended, continuation: $0))
    }
  }

  /// Brings everything to the device and closes the file.
  func close() async throws {
    timer?.cancel()
    await waitUntilWritten()
    if synced < written { try await file.dataSync() }
    try await file.close()
  }

  private func writePending() async {
    while !pending.isEmpty {
      let bytes = pending.bytes
      pending.removeAll()
      do {
        try await file.write(bytes)
        if policy == .always { try await file.dataSync() }
      } catch {
        exit("\(error)", status: EXIT_FAILURE)
      }
      written += bytes.count
      if policy == .always { synced = written }
      resumeWaiters()
    }
    isWriting = false
  }

  private func resumeWaiters() {
    // Their positions ascend.
    let done = waiters.prefix { $0.position <= written }
    waiters.removeFirst(done.count)
    for waiter in done { waiter.continuation.resume() }
  }

  private func syncIfNeeded() {
    // On a slow device a sync may take longer than a second.
    guard synced < written, !isSyncing else { return }
    isSyncing = true
    Task(executorPreference: file.loop) {
      let position = self.written
      do { try await self.file.dataSync() } catch { exit("\(error)", status: EXIT_FAILURE) }
      self.synced = position
      self.isSyncing = false
    }
  }
}
