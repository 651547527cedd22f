#!/usr/bin/env bash
# Leaves out each mechanism of the protocol in turn: simulation or model must find what goes wrong without it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'HELP'
Usage: scripts/mutants.sh [--seeds N] [--threads N]

For each mechanism one line: the first seed found that shows that it is missing (of N, 400 if nothing else is said), or why
it is redundant, which is told of the few that another mechanism covers: no seed may find those. Then the twins of the models
of the masters, of axes and sections, and of the serial file, where one mechanism is left out and a duplicate must be found. The last line is
  mutations=N caught=N redundant=N wrong=0
and the exit status says whether everything came as listed. Some ten minutes on two cores.

  --help   this text
HELP
}

args=(--seeds 400)
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --seeds | --threads)
      if [ $# -lt 2 ]; then
        printf 'mutants: %s needs a number; see --help\n' "$1" >&2
        exit 2
      fi
      args+=("$1" "$2")
      shift 2
      ;;
    *)
      printf 'mutants: unknown argument %s; see --help\n' "$1" >&2
      exit 2
      ;;
  esac
done

cargo build --locked --release --quiet -p models --bin simulate
cargo test --locked --release --quiet -p models --test models -- \
  --nocapture --test-threads=1 without redundant
exec "${CARGO_TARGET_DIR:-target}/release/simulate" --gate "${args[@]}"
