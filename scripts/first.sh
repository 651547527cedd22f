#!/usr/bin/env bash
# How long first calls take, of keys, names and agents, on a cluster of this machine that has nothing else to do.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'EOT'
Usage: scripts/first.sh [--bins DIR] [--part PART ...]

Builds the programs as they are shipped, starts two masters and two agents, and prints a table of first calls in milliseconds:
definitions and first IDs of names of each kind at either agent, unknown names, tokens that are leased on demand, and keys of
sequences that nobody used: one by one, by 16 callers, 10,000 in a call, after restarts, a kill -9 and a drain, and with a
master away, once sections stay where they are.
Refusals have a column of their own. Two to three minutes beside the build.

  --part PART  only that: names, keys, restarts, away (with a master away), many (in a call), drain (after a drain)
  --bins DIR   take the programs in DIR instead, of another version as it may be, and build the load generator alone
  --help       this text
EOT
}

bins='' parts=()
while [ $# -gt 0 ]; do
  case $1 in
    --bins)
      bins=${2:?"--bins needs a folder"}
      shift
      ;;
    --part)
      parts+=(--part "${2:?"--part needs a name"}")
      shift
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    *)
      printf 'first: unknown argument %s; see --help\n' "$1" >&2
      exit 2
      ;;
  esac
  shift
done
target=${CARGO_TARGET_DIR:-target}
if [ -z "$bins" ]; then
  echo "Building as for a release (this takes some minutes the first time) ..." >&2
  cargo build --locked --release -p uniq-master -p uniq-agent --bins
  bins=$target/release
fi
cargo build --locked --release -p tests --bin uniq_bench
exec "$target/release/uniq_bench" first --bins "$bins" "${parts[@]}"
