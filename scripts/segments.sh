#!/usr/bin/env bash
# The long form of the segments' test: kill -9 of every agent and master in turn while clients fetch plain numbers, none twice.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case ${1:-} in
  -h | --help)
    cat <<'HELP'
Usage: scripts/segments.sh [NUMBERS [ROUNDS]]

Eight agents and both masters give numbers of 1,000 names. Each of them is killed with SIGKILL once a round (5 rounds if nothing else is
said), and at least 500000000 numbers have to come. The last line is
  kills=N numbers=N duplicates=N
HELP
    exit 0
    ;;
esac
cargo build --release --locked --bins -p uniq-master -p uniq-agent
export UNIQ_BIN_DIR=${CARGO_TARGET_DIR:-target}/release UNIQ_SEGMENT_AGENTS=8 UNIQ_SEGMENT_NAMES=1000
export UNIQ_SEGMENT_NUMBERS=${1:-500000000} UNIQ_SEGMENT_ROUNDS=${2:-5}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cargo test --locked -p processes --test numbers segments::no_number_comes_twice -- --nocapture --test-threads=1 2>&1 | tee "$log"
grep -o 'kills=.*' "$log"
