import Glibc

/// Ends the process as a failure unless `condition` holds.
func check(_ condition: Bool, _ claim: String) {
  guard !condition else { return }
  print("not true: \(claim)")
  exit(3)
}

// Whoever started this may have run on a thread that blocks signals, and a child inherits that.
var noSignals = sigset_t()
sigemptyset(&noSignals)
pthread_sigmask(SIG_SETMASK, &noSignals, nil)

do {
  let name = CommandLine.arguments.dropFirst().first ?? ""
  if let scenario = Scenario(rawValue: name) {
    try scenario.run()
  } else if let scenario = BrokenPipe(rawValue: name) {
    try scenario.run()
  } else if let scenario = Resources(rawValue: name) {
    try scenario.run()
  } else if let scenario = Operations(rawValue: name) {
    try scenario.run()
  } else {
    check(false, "there is a scenario \(name)")
  }
  print("done")
} catch {
  check(false, "nothing is thrown: \(error)")
}
