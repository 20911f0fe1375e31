// swift-tools-version: 6.2

import PackageDescription

let strict: [CSetting] = [.unsafeFlags(["-Wall", "-Wextra"])]

let package = Package(
  name: "Benchmarks",
  targets: [
    .systemLibrary(
      name: "CUV",
      pkgConfig: "libuv",
      providers: [.apt(["libuv1-dev"]), .brew(["libuv"])]
    ),
    .executableTarget(name: "echo-server-c", dependencies: ["CUV"], cSettings: strict),
    .executableTarget(name: "echo-load", cSettings: strict),
  ],
  cLanguageStandard: .gnu11
)
