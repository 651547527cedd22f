#!/usr/bin/env bash
# The long forms of what scripts/test.sh runs short, one after the other: for a night on a machine that has nothing else to do.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

# A name, and what it runs.
forms=(
  'model scripts/model.sh'
  'simulate scripts/simulate.sh --seeds 20000'
  'mutants scripts/mutants.sh'
  'crash scripts/crash.sh'
  'partition scripts/partition.sh'
  'faults scripts/faults.sh'
  'strangers scripts/strangers.sh'
  'replays env UNIQ_REPLAYS=10000 cargo test --locked --release -p processes --test hostile sent_again'
  'planted scripts/planted.sh'
  'segments scripts/segments.sh'
  'sequences scripts/sequences.sh'
  'sequences-lease-2 scripts/sequences.sh --lease 2'
  'sequences-text scripts/sequences.sh --text'
  'sequences-curve scripts/sequences.sh --curve'
  'ranges scripts/ranges.sh'
  'steady scripts/steady.sh'
)

usage() {
  cat <<'HELP'
Usage: scripts/prove.sh [--logs FOLDER] [NAME ...]
       scripts/prove.sh --list

Runs the long forms of the tests that have one, or those that are named, builds what they need, and goes on when one fails. What each
says is in FOLDER/NAME.log (target/prove); here stand how long it took, and its last line. Ends with 1 if one of them failed. All of
them take some hours on two cores. What each does says its own --help; scripts/survivors.sh, which takes days, is not among them.

  --logs FOLDER  where the logs are written
  --list         only say which there are
  --help         this text
HELP
}

logs=${CARGO_TARGET_DIR:-target}/prove wanted=()
while [ $# -gt 0 ]; do
  case $1 in
    --logs)
      logs=${2:?--logs needs a folder}
      shift
      ;;
    --list)
      printf '%s\n' "${forms[@]}"
      exit 0
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    -*)
      printf 'prove: unknown argument %s; see --help\n' "$1" >&2
      exit 2
      ;;
    *)
      if ! printf '%s\n' "${forms[@]%% *}" | grep -qxF -- "$1"; then
        printf 'prove: there is no %s; see --list\n' "$1" >&2
        exit 2
      fi
      wanted+=("$1")
      ;;
  esac
  shift
done

mkdir -p "$logs"
failed=0
for form in "${forms[@]}"; do
  name=${form%% *}
  if [ ${#wanted[@]} -gt 0 ] && ! printf '%s\n' "${wanted[@]}" | grep -qxF -- "$name"; then
    continue
  fi
  read -ra command <<<"${form#* }"
  start=$SECONDS state=ok
  printf '%s: %s\n' "$name" "${command[*]}"
  if ! "${command[@]}" >"$logs/$name.log" 2>&1; then
    state=FAILED failed=$((failed + 1))
  fi
  printf '%-6s %6ss  %s\n' "$state" "$((SECONDS - start))" "$(grep -v '^$' "$logs/$name.log" | tail -n 1 | tr '\r' '\n' | tail -n 1)"
done
[ "$failed" -eq 0 ]
