/// Releases objects one after the other, where each holds the next: one inside the other, a long chain would overflow the stack.
enum ReleaseInTurn {
  /// What waits to be released on this thread.
  private final class Waiting {
    var objects: [AnyObject] = []
  }

  private static let waiting = ThreadLocal()

  /// Takes `objects` and releases them: now, or, if this thread is inside such a release, when what is being released there is gone.
  static func release<Object: AnyObject>(_ objects: inout [Object]) {
    if let outer = waiting.value {
      Unmanaged<Waiting>.fromOpaque(outer).takeUnretainedValue().objects += objects
      objects = []
      return
    }
    let list = Waiting()
    list.objects = objects
    objects = []
    waiting.with(Unmanaged.passUnretained(list).toOpaque()) {
      while list.objects.popLast() != nil {}
    }
  }
}
