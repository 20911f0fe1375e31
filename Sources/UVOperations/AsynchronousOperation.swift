public import Foundation

open class AsynchronousOperation: Operation, @unchecked Sendable {}
