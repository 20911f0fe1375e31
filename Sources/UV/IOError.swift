internal import CUV

/// What went wrong, in which operation, on what.
///
/// Prints like `connect 127.0.0.1:7007: connection refused (ECONNREFUSED)`. The number that libuv gave is kept in
/// ``code``.
public struct IOError: Error, Hashable, Sendable {
  /// Why the operation failed.
  public let code: Code

  /// What was tried: `connect`, `bind`, `read`.
  public let operation: String

  /// What it was tried on, such as an address or a host name, if there is one to name.
  public let subject: String?

  /// How many bytes a write to a file had written when it failed; `nil` for other errors.
  public let bytesWritten: Int?

  public init(
    _ code: Code, _ operation: String, _ subject: String? = nil, bytesWritten: Int? = nil
  ) {
    self.code = code
    self.operation = operation
    self.subject = subject
    self.bytesWritten = bytesWritten
  }

  /// The one place where a libuv status becomes an error.
  package init(_ status: CInt, _ operation: String, _ subject: String? = nil) {
    self.init(Code(rawValue: status), operation, subject)
  }

  /// The error that a failed system call left in `errno`.
  package init(errno number: CInt, _ operation: String, _ subject: String? = nil) {
    self.init(uv_translate_sys_error(number), operation, subject)
  }
}

extension IOError: CustomStringConvertible {
  public var description: String {
    let target = subject.map { " \($0)" } ?? ""
    let done = bytesWritten.map { ", after \($0) bytes" } ?? ""
    return "\(operation)\(target): \(code)\(done)"
  }
}

extension IOError {
  /// A libuv status code: negative, and on Linux `-errno` for errors of the system.
  ///
  /// Open on purpose, so that a code without a name here is still a code. Names and numbers are those of
  /// [libuv's error list](https://docs.libuv.org/en/v1.x/errors.html).
  public struct Code: RawRepresentable, Hashable, Sendable {
    public let rawValue: CInt

    public init(rawValue: CInt) { self.rawValue = rawValue }

    private init(_ status: uv_errno_t) { rawValue = status.rawValue }

    public static let addressFamilyNotSupported = Code(UV_EAFNOSUPPORT)  // EAFNOSUPPORT
    public static let addressInUse = Code(UV_EADDRINUSE)  // EADDRINUSE
    public static let addressNotAvailable = Code(UV_EADDRNOTAVAIL)  // EADDRNOTAVAIL
    public static let alreadyConnected = Code(UV_EISCONN)  // EISCONN
    public static let alreadyExists = Code(UV_EEXIST)  // EEXIST
    public static let badDescriptor = Code(UV_EBADF)  // EBADF
    public static let brokenPipe = Code(UV_EPIPE)  // EPIPE
    public static let cancelled = Code(UV_ECANCELED)  // ECANCELED
    public static let connectionAborted = Code(UV_ECONNABORTED)  // ECONNABORTED
    public static let connectionRefused = Code(UV_ECONNREFUSED)  // ECONNREFUSED
    public static let connectionReset = Code(UV_ECONNRESET)  // ECONNRESET
    public static let crossDevice = Code(UV_EXDEV)  // EXDEV
    public static let directoryNotEmpty = Code(UV_ENOTEMPTY)  // ENOTEMPTY
    public static let fileTooLarge = Code(UV_EFBIG)  // EFBIG
    public static let hostUnreachable = Code(UV_EHOSTUNREACH)  // EHOSTUNREACH
    public static let inputOutput = Code(UV_EIO)  // EIO
    public static let invalidArgument = Code(UV_EINVAL)  // EINVAL
    public static let invalidSeek = Code(UV_ESPIPE)  // ESPIPE
    public static let isDirectory = Code(UV_EISDIR)  // EISDIR
    public static let nameNotKnown = Code(UV_EAI_NONAME)  // EAI_NONAME
    public static let nameTooLong = Code(UV_ENAMETOOLONG)  // ENAMETOOLONG
    public static let nameTryAgain = Code(UV_EAI_AGAIN)  // EAI_AGAIN
    public static let networkUnreachable = Code(UV_ENETUNREACH)  // ENETUNREACH
    public static let noSpace = Code(UV_ENOSPC)  // ENOSPC
    public static let noSuchFile = Code(UV_ENOENT)  // ENOENT
    public static let notConnected = Code(UV_ENOTCONN)  // ENOTCONN
    public static let notDirectory = Code(UV_ENOTDIR)  // ENOTDIR
    public static let notPermitted = Code(UV_EPERM)  // EPERM
    public static let notSupported = Code(UV_ENOTSUP)  // ENOTSUP
    public static let outOfMemory = Code(UV_ENOMEM)  // ENOMEM
    public static let permissionDenied = Code(UV_EACCES)  // EACCES
    public static let readOnlyFileSystem = Code(UV_EROFS)  // EROFS
    public static let resourceBusy = Code(UV_EBUSY)  // EBUSY
    public static let textFileBusy = Code(UV_ETXTBSY)  // ETXTBSY
    public static let timedOut = Code(UV_ETIMEDOUT)  // ETIMEDOUT
    public static let tooManyLinks = Code(UV_EMLINK)  // EMLINK
    public static let tooManyOpenFiles = Code(UV_EMFILE)  // EMFILE
    public static let tooManyOpenFilesInSystem = Code(UV_ENFILE)  // ENFILE
    public static let tooManySymbolicLinks = Code(UV_ELOOP)  // ELOOP

    /// The C name, such as `ECONNREFUSED`.
    public var name: String { text(uv_err_name_r) }

    /// libuv's words for it, such as `connection refused`.
    public var message: String { text(uv_strerror_r) }

    // The `_r` functions: the plain ones leak memory for a code they do not know.
    private func text(
      _ describe: (CInt, UnsafeMutablePointer<CChar>?, Int) -> UnsafeMutablePointer<CChar>?
    ) -> String {
      withUnsafeTemporaryAllocation(of: CChar.self, capacity: 128) { buffer in
        _ = describe(rawValue, buffer.baseAddress, buffer.count)
        return String(cString: buffer.baseAddress!)
      }
    }
  }
}

extension IOError.Code: CustomStringConvertible {
  public var description: String { "\(message) (\(name))" }
}
