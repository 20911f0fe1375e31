import UV

/// The keys with their values, and when they expire.
///
/// Loop thread only. A key is gone for everybody at its deadline; a timer frees its memory soon after.
// Unchecked: only the timer's closure takes it elsewhere, and that is the loop's thread again.
final class Store: @unchecked Sendable {
  /// Called with a key that has expired, when it is removed.
  var whenExpired: ((Key) -> Void)?

  private let loop: EventLoop
  private var values: [Key: [UInt8]] = [:]
  private var expiries = Expiries()
  /// While a file is loaded keys do not expire: what it says was true at its time.
  private var isExpiring = false
  private var timer: LoopTimer?
  /// The deadline that the timer is set to.
  private var alarm = Int.max

  init(loop: EventLoop) { self.loop = loop }

  // MARK: Keys

  /// How many there are, without those that have expired.
  var count: Int {
    removeExpired(atMost: .max)
    return values.count
  }

  var expiringCount: Int { expiries.count }

  /// The keys for which `condition` holds, in no order, without those that have expired.
  func keys(where condition: (Key) -> Bool) -> [Key] {
    removeExpired(atMost: .max)
    return values.keys.filter(condition)
  }

  func contains(_ key: Bytes) -> Bool { index(of: key) != nil }

  func remove(_ key: Bytes) -> Bool {
    guard let index = index(of: key) else { return false }
    expiries.remove(Key(borrowing: key))
    values.remove(at: index)
    return true
  }

  func removeAll() {
    values = [:]
    expiries.removeAll()
  }

  // MARK: Values

  func value(of key: Bytes) -> [UInt8]? { index(of: key).map { values.values[$0] } }

  /// Sets the value, and the deadline too: `nil` for none.
  func set(_ key: Bytes, to value: [UInt8], until deadline: Int? = nil) {
    update(key) { $0 = value }
    setDeadline(of: key, to: deadline)
  }

  /// Changes the value where it is, without its deadline; an empty one if there is no such key.
  func update(_ key: Bytes, _ change: (inout [UInt8]) -> Void) {
    if let index = index(of: key) {
      change(&values.values[index])
    } else {
      change(&values[Key(copying: key), default: []])
    }
  }

  /// Where the key is, unless there is none or it has expired, which removes it.
  private func index(of key: Bytes) -> Dictionary<Key, [UInt8]>.Index? {
    let key = Key(borrowing: key)
    guard let index = values.index(forKey: key) else { return nil }
    guard isExpiring, let deadline = expiries.deadline(of: key), deadline <= currentTime() else {
      return index
    }
    expire(values.keys[index])
    return nil
  }

  // MARK: Expiring

  enum Lifetime {
    case noSuchKey
    case unlimited
    /// Up to this time, in milliseconds since 1970.
    case until(Int)
  }

  func lifetime(of key: Bytes) -> Lifetime {
    guard contains(key) else { return .noSuchKey }
    return expiries.deadline(of: Key(borrowing: key)).map { .until($0) } ?? .unlimited
  }

  /// Sets the deadline of a key that exists; `nil` for none.
  func setDeadline(of key: Bytes, to deadline: Int?) {
    guard let deadline else { return expiries.remove(Key(borrowing: key)) }
    guard let index = values.index(forKey: Key(borrowing: key)) else { return }
    expiries.set(values.keys[index], to: deadline)
    setTimer()
  }

  /// Lets keys expire from here on.
  func beginExpiring() {
    isExpiring = true
    setTimer()
  }

  /// Lets no more keys expire: nobody is left who could be told.
  func endExpiring() { isExpiring = false }

  private func expire(_ key: Key) {
    values[key] = nil
    expiries.remove(key)
    whenExpired?(key)
  }

  private func removeExpired(atMost limit: Int) {
    guard isExpiring else { return }
    let now = currentTime()
    var left = limit
    while left > 0, let (key, deadline) = expiries.next(), deadline <= now {
      expire(key)
      left -= 1
    }
  }

  // MARK: The timer

  /// Makes the timer fire at the next deadline.
  private func setTimer() {
    guard isExpiring, let deadline = expiries.next()?.deadline, deadline < alarm else { return }
    // The system's clock may be set, which the timer does not notice: so it looks once a minute.
    let delay = Duration.milliseconds(min(remainingTime(until: deadline), 60_000))
    alarm = deadline
    if let timer {
      timer.reschedule(after: delay)
    } else {
      // A loop that is closed has nobody left who could ask for a key.
      timer = try? loop.schedule(after: delay) { self.timerDidFire() }
    }
  }

  private func timerDidFire() {
    // Not too much at once, because the clients wait meanwhile.
    removeExpired(atMost: 1_000)
    alarm = .max
    setTimer()
  }
}
