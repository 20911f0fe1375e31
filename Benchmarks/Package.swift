// swift-tools-version: 6.2

import PackageDescription

let strict: [CSetting] = [.unsafeFlags(["-Wall", "-Wextra"])]

let settings: [SwiftSetting] = [
  .swiftLanguageMode(.v6),
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("InternalImportsByDefault"),
  .enableUpcomingFeature("MemberImportVisibility"),
  .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]

let package = Package(
  name: "Benchmarks",
  // Named, because a path alone would name it after whatever folder the repository was cloned into.
  dependencies: [.package(name: "swift-uv", path: "..")],
  targets: [
    // Not CUV, which is a target of swift-uv.
    .systemLibrary(
      name: "CLibuv",
      pkgConfig: "libuv",
      providers: [.apt(["libuv1-dev"]), .brew(["libuv"])]
    ),
    .executableTarget(name: "echo-server-c", dependencies: ["CLibuv"], cSettings: strict),
    .executableTarget(name: "echo-load", cSettings: strict),
    .executableTarget(
      name: "echo-server-buffer",
      dependencies: [.product(name: "UV", package: "swift-uv")],
      swiftSettings: settings
    ),
    .executableTarget(name: "benchmark-report", swiftSettings: settings),
    .executableTarget(
      name: "operation-rates",
      dependencies: [
        .product(name: "UV", package: "swift-uv"),
        .product(name: "UVOperations", package: "swift-uv"),
      ],
      swiftSettings: settings
    ),
    .executableTarget(name: "file-rates-c", dependencies: ["CLibuv"], cSettings: strict),
    .executableTarget(
      name: "file-rates",
      dependencies: [
        .product(name: "UV", package: "swift-uv"),
        .product(name: "UVOperations", package: "swift-uv"),
      ],
      swiftSettings: settings
    ),
    .executableTarget(name: "loop-rates-c", dependencies: ["CLibuv"], cSettings: strict),
    .executableTarget(
      name: "loop-rates",
      dependencies: [.product(name: "UV", package: "swift-uv")],
      swiftSettings: settings
    ),
  ],
  cLanguageStandard: .gnu11
)
