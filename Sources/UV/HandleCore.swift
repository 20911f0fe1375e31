internal import CUV

/// One libuv handle and the memory it lives in.
///
/// The shape of every handle here: a subclass allocates through ``init(loop:size:)``, calls its `uv_..._init`, then
/// ``opened()``; from there libuv holds a reference to the object, which the close callback gives back. So the memory
/// outlives libuv's use of it whatever becomes of the object's other owners, and may be freed on any thread.
///
/// Loop thread only, but for `init` and `deinit`.
// Unchecked: all state is loop thread only, and the methods assert that.
package class HandleCore: @unchecked Sendable {
  package enum Phase { case unopened, open, closing, closed }

  package let loop: LoopCore
  @exclusivity(unchecked) package private(set) var phase = Phase.unopened
  package let memory: UnsafeMutableRawPointer

  package init(loop: LoopCore, size: Int) {
    self.loop = loop
    memory = .allocate(byteCount: size, alignment: 16)
  }

  deinit { memory.deallocate() }

  package final var isOpen: Bool { phase == .open }

  final var handle: UnsafeMutablePointer<uv_handle_t> {
    memory.assumingMemoryBound(to: uv_handle_t.self)
  }

  /// To be called once, right after libuv has initialised the handle.
  final func opened() {
    loop.preconditionIsCurrent()
    phase = .open
    handle.pointee.data = Unmanaged.passRetained(self).toOpaque()  // Released in handleDidClose.
    loop.handleOpened()
  }

  /// Closes the handle; libuv's pending callbacks for it come first, then ``didClose()``. One that was not opened never will be:
  /// calls on the loop thread come before those from elsewhere that are still queued. Harmless twice.
  package final func closeHandle() {
    loop.preconditionIsCurrent()
    if phase == .unopened { phase = .closed }
    guard phase == .open else { return }
    phase = .closing
    uv_close(handle, handleDidClose)
  }

  /// What the loop calls on everything that is still open when it shuts down.
  func loopIsClosing() { closeHandle() }

  /// Whether the loop lets this one live until the grace period of a shutdown ends.
  var mayFinishDuringShutdown: Bool { false }

  /// libuv is done with the handle.
  func didClose() {}

  fileprivate func finishClosing() {
    phase = .closed
    didClose()
    loop.handleClosed()
  }
}

private func handleDidClose(_ handle: UnsafeMutablePointer<uv_handle_t>?) {
  Unmanaged<HandleCore>.fromOpaque(handle!.pointee.data).takeRetainedValue().finishClosing()
}

/// Calls `body` with the Swift object that a handle's `data` names.
///
/// libuv's own reference keeps it alive: the close callback, which gives it back, never comes inside another.
@inline(__always)
func withHandleCore<Core: HandleCore, Value>(
  _ data: UnsafeMutableRawPointer?, as type: Core.Type, _ body: (Core) -> Value
) -> Value {
  Unmanaged<HandleCore>.fromOpaque(data!)._withUnsafeGuaranteedRef {
    body(unsafeDowncast($0, to: Core.self))
  }
}
