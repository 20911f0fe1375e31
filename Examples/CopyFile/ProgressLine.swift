import Glibc
import UV

/// How far a copy is: on a terminal one line that changes a few times a second, and everywhere a line at the end.
final class ProgressLine {
  private let name: String
  private let isTerminal = isatty(STDOUT_FILENO) == 1
  private let start = ContinuousClock.now
  private var drawn: ContinuousClock.Instant?
  private var copied = 0
  // Of a pipe and of what is in /proc nobody knows how long it is: as far as one can tell, all is copied.
  private var hasKnownSize = false

  init(of source: FilePath) { name = printable("\(source.name)") }

  func show(_ progress: FileCopyProgress) {
    copied = progress.copied
    if progress.copied < progress.total { hasKnownSize = true }
    let now = ContinuousClock.now
    // A copy that takes no time shows nothing.
    guard isTerminal, now - (drawn ?? start) >= .milliseconds(150) else { return }
    drawn = now
    print("\r\(line(progress, after: now - start))\u{1B}[K", terminator: "")
    fflush(nil)
  }

  func finish(_ what: String) {
    clear()
    let seconds = rounded((ContinuousClock.now - start) / .seconds(1))
    print("\(printable(what)), \(size(copied)) in \(seconds) s")
    fflush(nil)
  }

  /// Removes what was shown.
  func clear() {
    guard drawn != nil else { return }
    drawn = nil
    print("\r\u{1B}[K", terminator: "")
    fflush(nil)
  }

  private func line(_ progress: FileCopyProgress, after time: Duration) -> String {
    let rate = Double(progress.copied) / (time / .seconds(1))
    var figures = "  \(size(progress.copied)), \(size(Int(rate)))/s"
    var bar = ""
    if hasKnownSize {
      let left = Int((Double(progress.total - progress.copied) / max(rate, 1)).rounded(.up))
      figures += ", \(left / 60):\(left % 60 < 10 ? "0" : "")\(left % 60) left"
      let share = Double(progress.copied) / Double(progress.total)
      let done = Int(share * 20)
      bar = "  [\(String(repeating: "#", count: done))\(String(repeating: "-", count: 20 - done))]"
      bar += " \(Int(share * 100))%"
    }
    // The last column stays free, because some terminals go on to the next line there.
    let room = terminalWidth - 1
    return fitting(fitting(name, max(room - bar.count - figures.count, 8)) + bar + figures, room)
  }

  private var terminalWidth: Int {
    var size = winsize()
    guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
    return Int(size.ws_col)
  }
}

/// As much of the beginning of `text` as fits. What is not ASCII counts as two columns, which is the most that it takes.
private func fitting(_ text: String, _ columns: Int) -> String {
  var left = columns
  let scalars = text.unicodeScalars.prefix {
    left -= $0.isASCII ? 1 : 2
    return left >= 0
  }
  return String(scalars)
}

/// `text` without what a terminal would obey: a file may have any name.
func printable(_ text: String) -> String {
  text.unicodeScalars.reduce(into: "") { result, scalar in
    switch scalar.properties.generalCategory {
    case .control, .format, .lineSeparator, .paragraphSeparator:
      result += "\\u{\(String(scalar.value, radix: 16, uppercase: true))}"
    default:
      result.unicodeScalars.append(scalar)
    }
  }
}

private func size(_ bytes: Int) -> String {
  guard bytes >= 1_000 else { return "\(bytes) bytes" }
  var value = Double(bytes) / 1_000
  var units = ["kB", "MB", "GB", "TB", "PB"][...]
  while rounded(value) >= 1_000, units.count > 1 {
    value /= 1_000
    units.removeFirst()
  }
  return "\(rounded(value)) \(units.first!)"
}

/// To one decimal.
private func rounded(_ value: Double) -> Double { (value * 10).rounded() / 10 }
