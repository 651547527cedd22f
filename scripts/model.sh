#!/usr/bin/env bash
# Walks every state of the two masters and of an agent's serial file within large bounds,
# with an axis of numbers and with a section and its agents, and says how many there were.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'EOF'
Usage: scripts/model.sh [masters|ranges|file]

Checks the masters' protocol (tests/models/tests/masters.rs), the same with an axis of numbers, and with a section and the agents that
serve it (tests/models/tests/ranges.rs), and that of the agent's serial file (tests/models/tests/file.rs), or one of them, in
every state within the large bounds, with optimized programs. The number of states is asserted; each line also
says how long it took, and the memory so far. With the serial file goes every sequence of seven things that can befall an
agent that mints by the tick (agent/engine/src/tests/walk.rs). Masters and serial file take about 25 minutes on two cores, and 1.4 GB.

  --help   this text
EOF
}

tests=(masters:: ranges:: file::)
case ${1:-} in
  '') ;;
  masters) tests=(masters::) ;;
  ranges) tests=(ranges::) ;;
  file) tests=(file::) ;;
  -h | --help)
    usage
    exit 0
    ;;
  *)
    printf 'model: unknown argument %s; see --help\n' "$1" >&2
    exit 2
    ;;
esac

export MODEL=large
if [[ ${1:-file} == file ]]; then
  cargo test --locked -p uniq-engine --lib tests::walk -- --nocapture --test-threads=1
fi
cargo test --release --locked -p models --test models -- "${tests[@]}" --nocapture --test-threads=1
