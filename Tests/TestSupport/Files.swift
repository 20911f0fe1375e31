import Foundation
import Glibc
internal import Locking
internal import Synchronization
public import Testing
public import UV

/// A loop and an empty directory for one test.
///
/// At the end the loop must have no handle and no request left and be gone, and no descriptor of anything in the directory may be open.
public func withDirectory<Value>(
  sourceLocation: SourceLocation = #_sourceLocation,
  _ body: (_ directory: FilePath, _ loop: EventLoop) async throws -> Value
) async throws -> Value {
  let directory = RawFile.newDirectory()
  defer { try? FileManager.default.removeItem(atPath: directory.string!) }
  let value = try await withLoop(sourceLocation: sourceLocation) { loop in
    let value = try await body(directory, loop)
    await expectNothingLeft(on: loop, sourceLocation: sourceLocation)
    return value
  }
  await expectNothingOpen(in: directory, sourceLocation: sourceLocation)
  return value
}

/// Waits until no descriptor of anything in `directory` is open: the last holder may be another thread that is about to let go.
public func expectNothingOpen(
  in directory: FilePath, sourceLocation: SourceLocation = #_sourceLocation
) async {
  await eventually("no file of the directory is open", sourceLocation: sourceLocation) {
    RawFile.openDescriptors(in: directory).isEmpty
  }
}

/// Files by the system's own calls, for what the package under test must not be asked.
public enum RawFile {
  public static func newDirectory() -> FilePath {
    var template = Array("/tmp/swift-uv-tests-XXXXXX\0".utf8CString)
    precondition(mkdtemp(&template) != nil, "no temporary directory")
    return FilePath(
      bytes: template.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) })
  }

  /// Makes the file with `bytes` as its content.
  public static func make(_ path: FilePath, _ bytes: [UInt8] = []) {
    let descriptor = opened(path, O_WRONLY | O_CREAT | O_TRUNC)
    precondition(descriptor >= 0, "cannot make \(path)")
    precondition(write(descriptor, bytes, bytes.count) == bytes.count)
    close(descriptor)
  }

  public static func make(_ path: FilePath, _ text: String) { make(path, Array(text.utf8)) }

  /// Makes a file of `size` bytes that has `bytes` at `offset` and is a hole otherwise.
  public static func makeSparse(
    _ path: FilePath, size: Int, _ bytes: [UInt8] = [], at offset: Int = 0
  ) {
    let descriptor = opened(path, O_WRONLY | O_CREAT | O_TRUNC)
    precondition(ftruncate(descriptor, size) == 0)
    precondition(pwrite(descriptor, bytes, bytes.count, offset) == bytes.count)
    close(descriptor)
  }

  public static func makeFIFO(_ path: FilePath) {
    precondition(withCString(path) { mkfifo($0, 0o600) } == 0)
  }

  public static func makeDirectory(_ path: FilePath) {
    precondition(withCString(path) { mkdir($0, 0o755) } == 0)
  }

  public static func makeLink(_ path: FilePath, to target: FilePath) {
    precondition(
      withCString(path) { path in withCString(target) { symlink($0, path) } } == 0)
  }

  public static func setPermissions(_ path: FilePath, _ mode: UInt16) {
    precondition(withCString(path) { chmod($0, mode_t(mode)) } == 0)
  }

  /// All that is in the file; `nil` if it cannot be opened.
  public static func content(_ path: FilePath) -> [UInt8]? {
    let descriptor = opened(path, O_RDONLY)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 65_536)
    while true {
      let count = read(descriptor, &buffer, buffer.count)
      guard count > 0 else { return bytes }
      bytes += buffer[..<count]
    }
  }

  /// The names in a directory, sorted.
  public static func names(_ path: FilePath) -> [FilePath] {
    guard let directory = withCString(path, { opendir($0) }) else { return [] }
    defer { closedir(directory) }
    var names: [FilePath] = []
    while let entry = readdir(directory) {
      let name = withUnsafeBytes(of: &entry.pointee.d_name) {
        FilePath(bytes: $0.prefix { $0 != 0 })
      }
      if name != ".", name != ".." { names.append(name) }
    }
    return names.sorted()
  }

  /// Whether there is something, be it a link that leads nowhere.
  public static func exists(_ path: FilePath) -> Bool {
    var information = stat()
    return withCString(path) { lstat($0, &information) } == 0
  }

  /// A descriptor, -1 if the system refuses. The caller closes it.
  public static func opened(_ path: FilePath, _ flags: CInt) -> CInt {
    withCString(path) { open($0, flags | O_CLOEXEC, 0o644) }
  }

  /// Opens the FIFO for writing as soon as somebody reads, or is about to open it for that.
  public static func openedForWriting(
    _ fifo: FilePath, sourceLocation: SourceLocation = #_sourceLocation
  ) async -> RawDescriptor {
    var descriptor: CInt = -1
    await eventually("somebody opens \(fifo)", sourceLocation: sourceLocation) {
      descriptor = opened(fifo, O_WRONLY | O_NONBLOCK)
      return descriptor >= 0
    }
    return RawDescriptor(descriptor)
  }

  /// The descriptors of what this process has open in `directory`. A number may be another file's in the next moment.
  public static func openDescriptors(in directory: FilePath) -> [CInt] {
    let prefix = Array(directory.bytes) + Array("/".utf8)
    return descriptorNumbers().filter { number in
      var buffer = [UInt8](repeating: 0, count: 4_096)
      let count = buffer.withUnsafeMutableBytes {
        readlink(
          "/proc/self/fd/\(number)", $0.baseAddress!.assumingMemoryBound(to: CChar.self), 4_096)
      }
      let path = buffer[..<max(0, count)]
      return path.starts(with: prefix) || path.elementsEqual(directory.bytes)
    }
  }

  private static func withCString<Result>(
    _ path: FilePath, _ body: (UnsafePointer<CChar>) -> Result
  ) -> Result {
    (Array(path.bytes) + [0]).withUnsafeBytes {
      body($0.baseAddress!.assumingMemoryBound(to: CChar.self))
    }
  }
}

/// A descriptor that is closed once, at the latest when it goes.
public final class RawDescriptor: Sendable {
  private let value: Atomic<CInt>

  public init(_ number: CInt) { value = Atomic(number) }

  deinit { close() }

  public var number: CInt { value.load(ordering: .sequentiallyConsistent) }

  public func close() {
    let number = value.exchange(-1, ordering: .sequentiallyConsistent)
    if number >= 0 { Glibc.close(number) }
  }

  /// Writes all of `bytes`, for which there must be room.
  public func write(_ bytes: [UInt8]) {
    precondition(Glibc.write(number, bytes, bytes.count) == bytes.count)
  }
}

/// Runs `body` and gives what ``Report`` says about `path`, or something in it, meanwhile to `reports`.
public func withReports<Value>(
  about path: FilePath, to reports: Collected<String>, _ body: () async throws -> Value
) async rethrows -> Value {
  let text = path.description
  listeners.withLock { $0[text] = reports }
  defer { listeners.withLock { $0[text] = nil } }
  // There is one for the process, and tests run side by side.
  Report.setHandler { line in
    let all = listeners.withLock { $0 }
    let concerned = all.filter { line.contains($0.key) }
    for listener in concerned { listener.value.append(line) }
    if concerned.isEmpty { print("swift-uv: \(line)") }
  }
  return try await body()
}

private let listeners = Lock<[String: Collected<String>]>([:])

/// Memory for one test, filled with `0xEE`.
public func withMemory<Value>(
  _ count: Int, _ body: (UnsafeMutableRawBufferPointer) async throws -> Value
) async throws -> Value {
  let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: 16)
  defer { memory.deallocate() }
  memory.initializeMemory(as: UInt8.self, repeating: 0xEE)
  return try await body(memory)
}

/// Fails the test unless `body` throws an ``IOError`` with `code`, about `subject` if that is given.
@discardableResult
public func expectError(
  _ code: IOError.Code, on subject: FilePath? = nil,
  sourceLocation: SourceLocation = #_sourceLocation, _ body: () async throws -> Void
) async -> IOError? {
  do {
    try await body()
    Issue.record("no error was thrown", sourceLocation: sourceLocation)
  } catch let error as IOError {
    #expect(error.code == code, sourceLocation: sourceLocation)
    if let subject {
      #expect(
        error.subject?.contains(subject.description) == true, sourceLocation: sourceLocation)
    }
    return error
  } catch {
    Issue.record(error, sourceLocation: sourceLocation)
  }
  return nil
}

/// A small generator that gives the same numbers in every run.
public struct SeededNumbers: RandomNumberGenerator {
  private var state: UInt64

  public init(seed: UInt64) { state = seed }

  public mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }
}
