#!/usr/bin/env bash
# The long form of the fault tests of the agent's serial file: kills and faults at its system calls, by the thousand.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'HELP'
Usage: scripts/faults.sh [--kills N] [--seed S]

Strikes at every system call of every operation of the serial file with every fault, then at random until agents were
killed N times (10000 if nothing else is said); then what real tools and file systems do to a serial file, a stop past the
lease, and steps of the calendar by libfaketime, for which an agent that asks the C library for the time is built below
target/libc. What cannot be had here (mounts, faketime) says so and is left out. The last line is
  kills=N steps=N faults=N duplicates=N

  --seed S   what is drawn; it is printed, and the same seed draws the same again
  --help     this text
HELP
}

export UNIQ_FAULT_KILLS=10000
while [ $# -gt 0 ]; do
  case $1 in
    --kills) UNIQ_FAULT_KILLS=${2:?a number is needed} && shift 2 ;;
    --seed) export UNIQ_SEED=${2:?a number is needed} && shift 2 ;;
    -h | --help)
      usage
      exit 0
      ;;
    *)
      printf 'faults: unknown argument %s; see --help\n' "$1" >&2
      exit 2
      ;;
  esac
done

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
cargo build --locked --bins -p uniq-master -p uniq-agent
if [ -n "$(find /usr/lib /usr/local/lib -name libfaketimeMT.so.1 2>/dev/null)" ]; then
  RUSTFLAGS="${RUSTFLAGS:-} --cfg rustix_use_libc" CARGO_TARGET_DIR=$target/libc cargo build --locked --bin uniq_generator -p uniq-agent
  export UNIQ_LIBC_BIN_DIR=$target/libc/debug
fi
export UNIQ_BIN_DIR=$target/debug
log=$(mktemp)
trap 'rm -f "$log"' EXIT
tests=(file_faults:: file_systems:: stopped:: clock_steps::)
cargo test --locked -p processes --test agents -- "${tests[@]}" --nocapture --test-threads=1 2>&1 | tee "$log"
grep -o 'kills=.*' "$log"
