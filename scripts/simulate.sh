#!/usr/bin/env bash
# Simulates whole clusters, one per seed, and looks for an ID that was given twice.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'EOF'
Usage: scripts/simulate.sh [--seeds N] [--from SEED] [--days D] [--threads N] [--mutation NAME] [--trace]

Runs N seeds (1000), from SEED (1) on, each with D days (60) of faults and ten days of healing, on all cores.
Faults by kind come first; the last line is
  seeds=N days=N faults=N ids=N duplicates=N stuck=N
and the exit status says whether every seed was fine. A seed that was not is told with the command that replays it.

  --mutation NAME  leave out one mechanism and stop at the first seed that shows it; `--list-mutations` lists them
  --mutants        do that for each of them in turn, with N seeds at most
  --trace          tell everything that happens on standard error; best with --seeds 1
  --help           this text
EOF
}

mutants=false args=()
for arg in "$@"; do
  case $arg in
    -h | --help)
      usage
      exit 0
      ;;
    --mutants) mutants=true ;;
    *) args+=("$arg") ;;
  esac
done

target=${CARGO_TARGET_DIR:-target}
cargo build --locked --release --quiet -p tests --bin simulate
if ! $mutants; then
  exec "$target/release/simulate" ${args[@]+"${args[@]}"}
fi

survived=0
while read -r mutation; do
  if log=$("$target/release/simulate" --mutation "$mutation" ${args[@]+"${args[@]}"} 2>&1); then
    printf 'SURVIVED  %s\n' "$mutation"
    survived=$((survived + 1))
  else
    printf 'caught    %-28s %s\n' "$mutation" "$(grep -m1 -A1 '^seed .* failed' <<<"$log" | tr -s '\n ' ' ')"
  fi
done < <("$target/release/simulate" --list-mutations)
[ "$survived" -eq 0 ]
