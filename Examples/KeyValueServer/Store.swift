import UV

/// The keys with their values, and when they expire.
///
/// Loop thread only. A key is gone for everybody at its deadline; a timer frees its memory soon after.
// Unchecked: only the timer's closure takes it elsewhere, and that is the loop's thread again.
final class Store: @unchecked Sendable {
  private struct Entry {
    var value: [UInt8]
    var expiry: Expiry?
  }

  private typealias Index = Dictionary<Key, Entry>.Index

  /// Called with a key that has expired, when it is removed.
  var whenExpired: ((Key) -> Void)?

  /// Whether keys expire. While a file is loaded they do not: what it says was true at its time.
  private(set) var isExpiring = false

  private let loop: EventLoop
  private var entries: [Key: Entry] = [:]
  private var expiries = Expiries()
  private var timer: LoopTimer?
  /// When the timer fires.
  private var alarm = Int.max

  init(loop: EventLoop) { self.loop = loop }

  // MARK: Keys

  /// How many there are, without those that have expired.
  var count: Int {
    removeExpired(atMost: .max)
    return entries.count
  }

  var expiringCount: Int { expiries.liveCount }

  /// The keys that have not expired and for which `condition` holds, in no order.
  func keys(where condition: (Key) -> Bool) -> [Key] {
    let now = currentTime()
    return entries.compactMap { key, entry in
      isOver(entry.expiry, at: now) || !condition(key) ? nil : key
    }
  }

  func contains(_ key: Bytes) -> Bool { index(of: key) != nil }

  func remove(_ key: Bytes) -> Bool {
    guard let index = index(of: key) else { return false }
    remove(at: index)
    return true
  }

  func removeAll() {
    entries = [:]
    expiries = Expiries()
  }

  // MARK: Values

  func value(of key: Bytes) -> [UInt8]? {
    index(of: key).map { entries.values[$0].value }
  }

  /// Sets the value, and the deadline too: `nil` for none.
  func set(_ key: Bytes, to value: [UInt8], until deadline: Int? = nil) {
    let index = index(of: key) ?? insert(key)
    entries.values[index].value = value
    setDeadline(at: index, to: deadline)
  }

  /// Changes the value where it is, without its deadline; an empty one if there is no such key.
  func update(_ key: Bytes, _ change: (inout [UInt8]) -> Void) {
    change(&entries.values[index(of: key) ?? insert(key)].value)
  }

  private func insert(_ key: Bytes) -> Index {
    let key = Key(copying: key)
    entries[key] = Entry(value: [])
    return entries.index(forKey: key)!
  }

  // MARK: Expiring

  enum Lifetime {
    case noSuchKey
    case unlimited
    /// Up to this time, in milliseconds since 1970.
    case until(Int)
  }

  func lifetime(of key: Bytes) -> Lifetime {
    guard let index = index(of: key) else { return .noSuchKey }
    return entries.values[index].expiry.map { .until($0.deadline) } ?? .unlimited
  }

  /// Sets the deadline of a key that exists; `nil` for none.
  func setDeadline(of key: Bytes, to deadline: Int?) {
    guard let index = index(of: key) else { return }
    setDeadline(at: index, to: deadline)
  }

  private func setDeadline(at index: Index, to deadline: Int?) {
    let old = entries.values[index].expiry
    if old == nil, deadline == nil { return }
    entries.values[index].expiry = deadline.map { expiries.add(entries.keys[index], $0) }
    if old != nil { drop() }
    arm()
  }

  /// Lets keys expire from here on.
  func beginExpiring() {
    isExpiring = true
    arm()
  }

  /// Lets no more keys expire: nobody is left who could be told.
  func endExpiring() { isExpiring = false }

  /// Where the key is, unless there is none or it has expired, which removes it.
  private func index(of key: Bytes) -> Index? {
    guard let index = entries.index(forKey: Key(borrowing: key)) else { return nil }
    guard let expiry = entries.values[index].expiry, isOver(expiry, at: currentTime()) else {
      return index
    }
    expire(at: index)
    return nil
  }

  private func isOver(_ expiry: Expiry?, at now: Int) -> Bool {
    guard let expiry else { return false }
    return isExpiring && expiry.deadline <= now
  }

  private func expire(at index: Index) {
    let key = entries.keys[index]
    remove(at: index)
    whenExpired?(key)
  }

  private func remove(at index: Index) {
    if entries.remove(at: index).value.expiry != nil { drop() }
  }

  /// An expiry does not count any more.
  private func drop() {
    expiries.drop { entries[$0.key]?.expiry == $0 }
  }

  // MARK: The timer

  /// Makes the timer fire at the first deadline.
  private func arm() {
    guard isExpiring, let deadline = expiries.first?.deadline, deadline < alarm else { return }
    // The system's clock may be set, which the timer does not notice: so it looks once a minute.
    let delay = min(max(deadline - currentTime(), 0), 60_000)
    alarm = deadline
    if let timer {
      timer.reschedule(after: .milliseconds(delay))
    } else {
      // A loop that is closed has nobody left who could ask for a key.
      timer = try? loop.schedule(after: .milliseconds(delay)) { self.ring() }
    }
  }

  private func ring() {
    // Not too much at once, because the clients wait meanwhile.
    removeExpired(atMost: 1_000)
    alarm = .max
    arm()
  }

  private func removeExpired(atMost limit: Int) {
    guard isExpiring else { return }
    let now = currentTime()
    var left = limit
    while left > 0, let expiry = expiries.first, expiry.deadline <= now {
      left -= 1
      expiries.removeFirst()
      if let index = entries.index(forKey: expiry.key), entries.values[index].expiry == expiry {
        expire(at: index)
      }
    }
  }
}
