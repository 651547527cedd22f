#!/usr/bin/env bash
# The long form of the strangers' test: garbage, floods, silent, slow and refused callers at every port, for minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case ${1:-} in
  -h | --help)
    cat <<'HELP'
Usage: scripts/strangers.sh [SECONDS]

Two masters and two agents with 1,024 file descriptors each and a log on a full disk, and strangers of every kind at every port,
for 600 seconds if nothing else is said. No process may end, no port close; readiness is asked for throughout, agents must
renew, memory must stay bounded and be given back. Prints how a gentle client was served beside them (p50, p99), and what
each process took. UNIQ_SEED=N repeats a run.
HELP
    exit 0
    ;;
esac
cargo build --release --locked --bins -p uniq-master -p uniq-agent
export UNIQ_BIN_DIR=${CARGO_TARGET_DIR:-target}/release UNIQ_STRANGERS_SECONDS=${1:-600}
cargo test --locked -p processes --test hostile all_at_once:: -- --nocapture
