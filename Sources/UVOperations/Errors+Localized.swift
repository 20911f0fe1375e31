public import Foundation
public import UV

// What people print of an error in Foundation's world is `localizedDescription`, which says nothing by itself.

extension IOError: LocalizedError {
  public var errorDescription: String? { description }
}

extension AddressError: LocalizedError {
  public var errorDescription: String? { description }
}

extension StreamClosed: LocalizedError {
  public var errorDescription: String? { description }
}

extension ConcurrentRead: LocalizedError {
  public var errorDescription: String? { description }
}

extension EventLoopClosed: LocalizedError {
  public var errorDescription: String? { description }
}

extension OperationTimedOut: LocalizedError {
  public var errorDescription: String? { description }
}

extension OperationNotFinished: LocalizedError {
  public var errorDescription: String? { description }
}

extension OperationAbandoned: LocalizedError {
  public var errorDescription: String? { description }
}

extension GroupFailed: LocalizedError {
  public var errorDescription: String? { description }
}
