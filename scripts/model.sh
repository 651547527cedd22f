#!/usr/bin/env bash
# Walks every state of the two masters and of an agent's serial file within large bounds, and says how many there were.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'EOF'
Usage: scripts/model.sh [masters|file]

Checks the masters' protocol (tests/tests/model.rs) and that of the agent's serial file (tests/tests/file_model.rs), or one
of them, in every state within the large bounds, with optimized programs. The number of states is asserted; each line also
says how long it took, and the memory so far. With the serial file goes every sequence of seven things that can befall an
agent that mints by the tick (agent/src/engine/tests/walk.rs). Takes about 25 minutes on two cores, and 1.4 GB.

  --help   this text
EOF
}

tests=(--test model --test file_model)
case ${1:-} in
  '') ;;
  masters) tests=(--test model) ;;
  file) tests=(--test file_model) ;;
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
if [ "${1:-}" != masters ]; then
  cargo test --locked -p uniq-agent --lib engine::tests::walk -- --nocapture --test-threads=1
fi
cargo test --release --locked -p tests "${tests[@]}" -- --nocapture --test-threads=1
