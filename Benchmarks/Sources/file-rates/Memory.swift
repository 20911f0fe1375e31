import Glibc

/// What the system says of the memory of this process, in KiB: `VmRSS:` is what it has, `VmHWM:` what it has had at most.
func memoryOfProcess(_ name: String) -> Int {
  guard let status = fopen("/proc/self/status", "r") else { fail("no /proc/self/status") }
  defer { fclose(status) }
  var line = [CChar](repeating: 0, count: 256)
  while fgets(&line, Int32(line.count), status) != nil {
    let text = line.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
    guard text.hasPrefix(name) else { continue }
    return Int(text.split { !$0.isNumber }.first ?? "") ?? 0
  }
  fail("\(name) is not in /proc/self/status")
}
