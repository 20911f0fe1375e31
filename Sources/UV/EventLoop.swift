public final class EventLoop: Sendable {}
