# Sourced by the other scripts: makes sure that the compiler finds libuv, installing it if it is missing, and that the tests have Redis' clients
# and what counts instructions.

have_libuv() {
  command -v pkg-config >/dev/null && pkg-config --exists 'libuv >= 1.44.2'
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

install_libuv() {
  if command -v brew >/dev/null; then
    brew install libuv pkg-config
  elif command -v apt-get >/dev/null; then
    as_root apt-get update -qq && as_root apt-get install -y -qq libuv1-dev pkg-config
  elif command -v dnf >/dev/null; then
    as_root dnf install -y libuv-devel pkgconf-pkg-config
  elif command -v apk >/dev/null; then
    as_root apk add libuv-dev pkgconf
  else
    return 1
  fi
}

ensure_libuv() {
  command -v swift >/dev/null || {
    echo "swift is not in PATH: install the Swift toolchain, 6.2 or later, first" >&2
    exit 1
  }
  have_libuv && return
  echo "libuv is missing; installing it" >&2
  # Standard output belongs to the program that is started afterwards.
  install_libuv >&2 && have_libuv && return
  echo "libuv 1.44.2 or later could not be installed; install its development package and pkg-config by hand" >&2
  exit 1
}

have_redis_tools() {
  command -v redis-cli >/dev/null && command -v redis-benchmark >/dev/null
}

# Fails where they are missing and there is no apt-get, or no right to use it.
ensure_redis_tools() {
  have_redis_tools && return
  command -v apt-get >/dev/null || return
  as_root apt-get update -qq && as_root apt-get install -y -qq redis-tools && have_redis_tools
} >&2

# A container may forbid what strace does.
have_counting_tools() {
  command -v valgrind >/dev/null && strace -o /dev/null true 2>/dev/null
}

# As above, for what counts instructions and system calls.
ensure_counting_tools() {
  have_counting_tools && return
  command -v apt-get >/dev/null || return
  as_root apt-get update -qq && as_root apt-get install -y -qq valgrind strace && have_counting_tools
} >&2
