# Sourced by the scripts that run servers under load. They set `root`, `work`, a directory for what the runs print, and
# `onServerCore`, an array of words before a server's command, before they call these.

server=  # Process of the running server; empty when none runs.

fail() {
  echo "${0##*/}: $1" >&2
  exit "${2:-1}"
}

# Builds a product, or all of a package, for release.
build() { swift build -c release "$@" >"$work/build" 2>&1 || { cat "$work/build" >&2; fail "the build failed"; }; }

# Builds the echo servers and the load, and sets `tools` and `ours`, where they are.
buildServers() {
  build --package-path "$root/Benchmarks"
  build --package-path "$root" --product echo-server
  tools=$(swift build -c release --package-path "$root/Benchmarks" --show-bin-path)
  ours=$(swift build -c release --package-path "$root" --show-bin-path)
}

# Makes the server that is called so the words of `command`.
chooseServer() {
  case $1 in
    C) command=("$tools/echo-server-c" --port 0) ;;
    async) command=("$ours/echo-server" --port 0 --mode async) ;;
    buffer) command=("$tools/echo-server-buffer" --port 0) ;;
    loop | direct | dispatch) command=("$ours/echo-server" --port 0 --queue "$1") ;;
    node) command=(node "$root/Benchmarks/Peers/echo.js" --port 0) ;;
    uvloop) command=(python3 "$root/Benchmarks/Peers/echo.py" --port 0) ;;
    *) fail "there is no server called $1" 64 ;;
  esac
}

# Starts the given command and sets `port` from the line "listening on ADDRESS:PORT".
startServer() {
  : >"$work/out"
  "${onServerCore[@]}" "$@" >"$work/out" 2>"$work/errors" &
  server=$!
  for _ in {1..400}; do
    read -r line <"$work/out" || line=  # A line without its end is not there yet.
    if [[ $line == "listening on "*:* ]]; then
      port=${line##*:}
      return
    fi
    kill -0 "$server" 2>/dev/null || break
    sleep 0.05
  done
  cat "$work/errors" >&2
  fail "no 'listening on ADDRESS:PORT' from: $*"
}

stopServer() {
  [[ -n $server ]] || return 0
  kill -KILL "$server" 2>/dev/null || true  # A server that does not stop when asked must not spoil the next run.
  wait "$server" 2>/dev/null || true
  server=
}

# The number called `name` in the report of the last load.
figure() { sed -E "s/.*\"$1\": ([0-9.]+).*/\1/" "$work/load"; }
