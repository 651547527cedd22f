#!/usr/bin/env bash
# How fast it is, beside its peers, on this machine in one run: prints `RATIO name=value` lines.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

usage() {
  cat <<'EOT'
Usage: scripts/bench.sh [--quick] [--report]

Installs redis-server and postgresql, as far as it may (apt as root or by sudo), builds the programs as they are shipped,
and measures an agent beside bare hyper and axum servers, Redis and PostgreSQL, and in-process minting beside other
crates. Servers are pinned to core 0, the load generator to core 1. Prints tables and one line `RATIO name=value` each.

  --quick    few and short rounds: some minutes without the build
  --report   write docs/prove/benchmarks.md and its plots too
  --help     this text
EOT
}

quick=false report=false
for arg in "$@"; do
  case $arg in
    --quick) quick=true ;;
    --report) report=true ;;
    -h | --help)
      usage
      exit 0
      ;;
    *)
      printf 'bench: unknown argument %s; see --help\n' "$arg" >&2
      exit 2
      ;;
  esac
done

have() { command -v "$1" >/dev/null 2>&1; }

if ! have cargo; then
  echo "bench: cargo is needed; get it from https://rustup.rs" >&2
  exit 1
fi
if ! have taskset; then
  echo "bench: taskset is needed; install util-linux" >&2
  exit 1
fi
if [ "$(nproc)" -lt 2 ]; then
  echo "bench: two cores are needed, one for the servers and one for the load" >&2
  exit 1
fi

# What cannot be installed is left out of the comparison, which says so.
missing=()
have redis-server || missing+=(redis-server)
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || missing+=(postgresql)
if [ "${#missing[@]}" -gt 0 ] && have apt-get; then
  sudo=()
  if [ "$(id -u)" -eq 0 ] || { have sudo && sudo -n true 2>/dev/null && sudo=(sudo -n); }; then
    echo "Installing ${missing[*]} ..."
    "${sudo[@]}" apt-get update -qq || true
    # Their own services are not wanted, only the programs.
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
      apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null || true
  fi
fi

target=${CARGO_TARGET_DIR:-target}
echo "Building as for a release (this takes some minutes the first time) ..."
cargo build --locked --release -p uniq-master -p uniq-agent --bins || exit 1
cargo build --locked --release -p tests --bin uniq_bench || exit 1

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
bench_args=() compare_args=(--rounds 15 --turn-ms 1000)
if $quick; then
  bench_args=(--quick)
  compare_args=(--rounds 3 --turn-ms 1000)
fi
echo "Minting in process ..."
cargo bench --locked -p uniq-agent --bench peers -- "${bench_args[@]}" | tee "$out/in-process.txt" || exit 1
$report && compare_args+=(--report docs/prove/benchmarks.md --in-process "$out/in-process.txt")
echo "Agents and servers ..."
UNIQ_BIN_DIR=$(realpath "$target/release") "$target/release/uniq_bench" compare "${compare_args[@]}"
