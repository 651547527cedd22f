#!/usr/bin/env bash
# The long form of the crash test: kill -9 of every agent and master in turn under load, millions of IDs, none twice.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case ${1:-} in
  -h | --help)
    echo "Usage: scripts/crash.sh [ROUNDS [IDS]]    10 rounds and 5000000 IDs if nothing else is said"
    exit 0
    ;;
esac
cargo build --release --locked --bins -p master -p agent
export UNIQ_BIN_DIR=${CARGO_TARGET_DIR:-target}/release UNIQ_CRASH_ROUNDS=${1:-10} UNIQ_CRASH_IDS=${2:-5000000}
exec cargo test --locked -p tests --test crash -- --nocapture --test-threads=1
