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

extension LineTooLong: LocalizedError {
  public var errorDescription: String? { description }
}

extension IncompleteRead: LocalizedError {
  public var errorDescription: String? { description }
}

extension TimedOut: LocalizedError {
  public var errorDescription: String? { description }
}

extension FileClosed: LocalizedError {
  public var errorDescription: String? { description }
}

extension SameFile: LocalizedError {
  public var errorDescription: String? { description }
}

extension ThreadPoolInUse: LocalizedError {
  public var errorDescription: String? { description }
}

extension NotAFileURL: LocalizedError {
  public var errorDescription: String? { description }
}
