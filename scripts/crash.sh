#!/usr/bin/env bash
# The long form of the crash test: kill -9 of every agent and master in turn under load, millions of IDs, none twice.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case ${1:-} in
  -h | --help)
    cat <<'HELP'
Usage: scripts/crash.sh [ROUNDS [IDS]]

Kills each of three agents and two masters once a round with SIGKILL while clients fetch IDs from all agents: 200 rounds
(1000 kills) and at least 5000000 IDs if nothing else is said. Every killed agent must go on with its token, every killed
master must know every lease it or the other promised. The end says how long restarts took, and the last line is
  kills=N duplicates=N
HELP
    exit 0
    ;;
esac
cargo build --release --locked --bins -p uniq-master -p uniq-agent
export UNIQ_BIN_DIR=${CARGO_TARGET_DIR:-target}/release UNIQ_CRASH_ROUNDS=${1:-200} UNIQ_CRASH_IDS=${2:-5000000}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cargo test --locked -p processes --test programs crash:: -- --nocapture --test-threads=1 2>&1 | tee "$log"
grep -o 'kills=.*' "$log"
