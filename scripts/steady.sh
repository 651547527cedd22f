#!/usr/bin/env bash
# What the steady state of many agents costs the masters: heartbeats every minute, renewals every hour.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ "${1:-}" = --tls ]; then
  export UNIQ_STEADY_TLS=1
  shift
fi
case ${1:-} in
  -h | --help)
    cat <<'HELP'
Usage: scripts/steady.sh [--tls] [AGENTS [SECONDS]]

Gives 4096 agents (if nothing else is said) a lease and a connection each, lets them live for 120 seconds, and measures the
processor time of both masters (release build, /proc/PID/stat). Up to 65536 agents: beyond 4096 both masters are formatted with a
larger pool, and where there are fewer file descriptors (ulimit -Hn) than agents several share a connection, which is said. A
number that cannot be had is refused with a sentence. With --tls each agent has a certificate of its own and a connection with TLS. The last line is
  agents=N seconds=N master1=N% master2=N% both=N% of a core
HELP
    exit 0
    ;;
esac
cargo build --release --locked --bins -p uniq-master -p uniq-agent
export UNIQ_BIN_DIR=${CARGO_TARGET_DIR:-target}/release UNIQ_STEADY_AGENTS=${1:-4096} UNIQ_STEADY_SECONDS=${2:-120}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cargo test --locked -p processes --test programs steady_state:: -- --nocapture 2>&1 | tee "$log"
grep -o 'agents=.*' "$log"
