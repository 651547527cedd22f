#!/usr/bin/env bash
# Walks the states of the two masters as far as there is time, and says how many there were.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'EOF'
Usage: scripts/model.sh [--seconds N]

Checks the masters' protocol in every state within the large bounds of tests/tests/model.rs, with optimized programs.
Each line says whether all states were seen or the time ran out first, how many, and the memory it took so far.

  --seconds N   how long each of the models may take (600)
  --help        this text
EOF
}

seconds=600
while [ $# -gt 0 ]; do
  case $1 in
    --seconds)
      seconds=${2:?--seconds needs a number}
      shift 2
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    *)
      printf 'model: unknown argument %s; see --help\n' "$1" >&2
      exit 2
      ;;
  esac
done

MODEL_SECONDS=$seconds cargo test --release --locked -p tests --test model -- --include-ignored --nocapture --test-threads=1
