// swift-tools-version: 6.2

import PackageDescription

let settings: [SwiftSetting] = [
  .swiftLanguageMode(.v6),
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("InternalImportsByDefault"),
  .enableUpcomingFeature("MemberImportVisibility"),
  .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]

let package = Package(
  name: "swift-uv",
  products: [
    .library(name: "UV", targets: ["UV"]),
    .library(name: "UVOperations", targets: ["UVOperations"]),
    .executable(name: "echo-server", targets: ["EchoServer"]),
    .executable(name: "timer-operations", targets: ["TimerOperations"]),
    .executable(name: "copy-file", targets: ["CopyFile"]),
    .executable(name: "tcp-proxy", targets: ["TCPProxy"]),
    .executable(name: "kv-server", targets: ["KeyValueServer"]),
  ],
  targets: [
    .systemLibrary(
      name: "CUV",
      pkgConfig: "libuv",
      providers: [.apt(["libuv1-dev"]), .brew(["libuv"])]
    ),
    .target(name: "Locking", swiftSettings: settings),
    .target(name: "UV", dependencies: ["CUV", "Locking"], swiftSettings: settings),
    .target(name: "UVOperations", dependencies: ["UV", "Locking"], swiftSettings: settings),
    .executableTarget(
      name: "EchoServer",
      dependencies: ["UV", "UVOperations"],
      path: "Examples/EchoServer",
      swiftSettings: settings
    ),
    .executableTarget(
      name: "TimerOperations",
      dependencies: ["UV", "UVOperations"],
      path: "Examples/TimerOperations",
      swiftSettings: settings
    ),
    .executableTarget(
      name: "CopyFile", dependencies: ["UV"], path: "Examples/CopyFile", swiftSettings: settings
    ),
    .executableTarget(
      name: "TCPProxy", dependencies: ["UV"], path: "Examples/TCPProxy", swiftSettings: settings
    ),
    .executableTarget(
      name: "KeyValueServer", dependencies: ["UV"], path: "Examples/KeyValueServer",
      swiftSettings: settings
    ),
    .target(
      name: "TestSupport", dependencies: ["UV", "Locking"], path: "Tests/TestSupport",
      swiftSettings: settings
    ),
    .testTarget(
      name: "UVTests", dependencies: ["UV", "Locking", "TestSupport"], swiftSettings: settings
    ),
    .executableTarget(
      name: "MainLoopProbe", dependencies: ["UV", "UVOperations", "Locking", "TestSupport"],
      path: "Tests/MainLoopProbe",
      swiftSettings: settings
    ),
    .testTarget(
      name: "PublicAPITests", dependencies: ["UV", "UVOperations"], swiftSettings: settings
    ),
    .testTarget(
      name: "ReadmeTests", dependencies: ["UV", "UVOperations"], swiftSettings: settings
    ),
    .testTarget(
      name: "UVOperationsTests",
      dependencies: ["UV", "UVOperations", "TestSupport"],
      swiftSettings: settings
    ),
    .testTarget(
      name: "ExamplesTests",
      dependencies: [
        "UV", "Locking", "EchoServer", "TimerOperations", "CopyFile", "TCPProxy",
        "KeyValueServer", "TestSupport",
      ],
      swiftSettings: settings
    ),
  ]
)
