#!/usr/bin/env bash
# The long forms of the strangers' tests: garbage, floods, silent, slow and refused callers at every port, for minutes; and a crowd at
# an agent's TLS port.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case ${1:-} in
  -h | --help)
    cat <<'HELP'
Usage: scripts/strangers.sh [SECONDS]

Two masters and two agents with 1,024 file descriptors each and a log on a full disk, and strangers of every kind at every port,
for 600 seconds if nothing else is said; then once more where every port speaks TLS. No process may end, no port close; readiness is asked for throughout, agents must
renew, memory must stay bounded and be given back. Prints how a gentle client was served beside them (p50, p99), and what
each process took. UNIQ_SEED=N repeats a run.

Then 10,000 callers come to an agent's TLS port, idle, slow, and with half a handshake, while one works.
HELP
    exit 0
    ;;
esac
cargo build --release --locked --bins -p uniq-master -p uniq-agent
export UNIQ_BIN_DIR=${CARGO_TARGET_DIR:-target}/release UNIQ_STRANGERS_SECONDS=${1:-600}
cargo test --locked -p processes --test hostile all_at_once:: -- --nocapture --test-threads 1
UNIQ_CROWD=10000 cargo test --locked -p processes --test hostile crowd:: -- --nocapture
