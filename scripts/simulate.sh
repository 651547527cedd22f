#!/usr/bin/env bash
# Simulates whole clusters, one per seed, and looks for an ID that was given twice.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'HELP'
Usage: scripts/simulate.sh [--seeds N] [--from SEED] [--days D] [--threads N] [--theme T] [--mutation NAME]
                           [--without FAULTS] [--trace]

Runs N seeds (1000), from SEED (1) on, each with D days (60) of faults and ten days of healing or more, on all cores.
Faults by kind come first; the last line is
  seeds=N days=N faults=N ids=N duplicates=N stuck=N disorder=N
and the exit status says whether every seed was fine. A seed that was not is told with the command that replays it.

  --mutation NAME  leave out one mechanism and stop at the first seed that shows it; `--list-mutations` lists them, and
                   scripts/mutants.sh tries them all
  --theme T        what all seeds are after (any, replaced, rolled-back, agents, ended, forgotten, ranges), instead of each its own choice
  --without FAULTS kinds of faults to leave out
  --trace          tell everything that happens on standard error; best with --seeds 1
  --help           this text
HELP
}

for arg in "$@"; do
  case $arg in
    -h | --help)
      usage
      exit 0
      ;;
  esac
done

cargo build --locked --release --quiet -p models --bin simulate
exec "${CARGO_TARGET_DIR:-target}/release/simulate" "$@"
