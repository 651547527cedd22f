#!/usr/bin/env bash
# How fast segments and sequences are, beside Uniq64 and Redis, on this machine in one run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'EOT'
Usage: scripts/ranges.sh [--quick] [--report] [--new-keys N] [--no-build]

Builds the programs as they are shipped, starts two masters, two agents and Redis (installed by apt as root or by sudo, as far
as that may be; without it its figures are left out), and measures in turn: single numbers and batches of segments beside
Uniq64; numbers of keys one by one, 10,000 a call and through the client with routes beside INCR, one at a time and
pipelined; first numbers of keys that nobody used, beside INCR of new keys; a steady load over changes of segments with and
without the second one; minting in process beside an atomic counter. Servers are pinned to core 0, the load generator to core
1. Some five minutes beside the build.

  --quick       two short rounds: a minute
  --report      put the part on segments and sequences into docs/prove/benchmarks.md anew, with its plot
  --new-keys N  keys that nobody used in each round and lane (200000): with 2000000 five rounds ask for ten millions, and Redis
                takes some gigabytes of memory
  --no-build    take the programs that were built before
  --help        this text
EOT
}

args=(--rounds 5 --turn-ms 700 --steady 8s) build=true
while [ $# -gt 0 ]; do
  case $1 in
    --quick) args=(--rounds 2 --turn-ms 400 --steady 3s "${args[@]:6}") ;;
    --report) args+=(--report docs/prove/benchmarks.md) ;;
    --new-keys)
      args+=(--new-keys "${2:?"--new-keys needs a number"}")
      shift
      ;;
    --no-build) build=false ;;
    -h | --help)
      usage
      exit 0
      ;;
    *)
      printf 'ranges: unknown argument %s; see --help\n' "$1" >&2
      exit 2
      ;;
  esac
  shift
done
if ! command -v taskset >/dev/null; then
  echo "ranges: taskset is needed; install util-linux" >&2
  exit 1
fi
if [ "$(nproc)" -lt 2 ]; then
  echo "ranges: two cores are needed, one for the servers and one for the load" >&2
  exit 1
fi
if ! command -v redis-server >/dev/null && command -v apt-get >/dev/null; then
  sudo=()
  if [ "$(id -u)" -eq 0 ] || { command -v sudo >/dev/null && sudo -n true 2>/dev/null && sudo=(sudo -n); }; then
    echo "Installing redis-server ..."
    # Its own service is not wanted, only the program.
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
      apt-get install -y -qq --no-install-recommends redis-server >/dev/null || true
  fi
fi
target=${CARGO_TARGET_DIR:-target}
if $build; then
  echo "Building as for a release (this takes some minutes the first time) ..."
  cargo build --locked --release -p uniq-master -p uniq-agent --bins
  cargo build --locked --release -p tests --bin uniq_bench
fi
UNIQ_BIN_DIR=$(realpath "$target/release") exec "$target/release/uniq_bench" ranges "${args[@]}"
