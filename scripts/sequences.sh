#!/usr/bin/env bash
# The long form of the sequences' test: millions of keys in as many sections as 2^32 keys have, through kills, stops, cuts and moves.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'HELP'
Usage: scripts/sequences.sh [--keys N] [--lease SECONDS] [--rounds N] [--moves N] [--text]
       scripts/sequences.sh --curve

Four agents and two masters, each in a network of its own (needs root, or user namespaces), serve 10,000,000 keys in 42,950 sections.
Masters and agents are killed, stand still past their lease (--sequence-lease), and are cut from each other every way; an operator
moves sections. Every number must be greater than all that was known of its key when it was asked for. Says for how long nobody
served a section; the last line is
  keys=N sections=N numbers=N duplicates=N disorder=N

  --keys N         keys in use (10000000)
  --lease SECONDS  of sections (5)
  --rounds N       how often everything happens (1)
  --moves N        moves of sections in each round (100)
  --text           keys are random texts instead of numbers
  --curve          instead: what sequences cost the masters and the agents' memory as agents, keys and steps grow
  --help           this text
HELP
}

keys=10000000 lease=5 rounds=1 moves=100 text=0 curve=false
while [ $# -gt 0 ]; do
  case $1 in
    --keys | --lease | --rounds | --moves)
      declare "${1#--}=${2:?"$1 needs a number"}"
      shift
      ;;
    --curve) curve=true ;;
    --text) text=1 ;;
    -h | --help)
      usage
      exit 0
      ;;
    *)
      printf 'sequences: unknown argument %s; see --help\n' "$1" >&2
      exit 2
      ;;
  esac
  shift
done

if [ -z "${UNIQ_BIN_DIR:-}" ]; then
  cargo build --release --locked --bins -p uniq-master -p uniq-agent
  export UNIQ_BIN_DIR=${CARGO_TARGET_DIR:-target}/release
fi
UNIQ_BIN_DIR=$(realpath "$UNIQ_BIN_DIR")
if $curve; then
  exec cargo run --release --locked -p tests --bin sequence_curve
fi
export UNIQ_KEYS=$keys UNIQ_SECTIONS=42950 UNIQ_SEQUENCE_AGENTS=4 UNIQ_SEQUENCE_LEASE=$lease UNIQ_SEQUENCE_ROUNDS=$rounds
export UNIQ_SEQUENCE_MOVES=$moves UNIQ_TEXT_KEYS=$text UNIQ_NETNS=required
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cargo test --locked -p processes --test numbers sequence_order:: -- --nocapture --test-threads=1 2>&1 | tee "$log"
grep -o 'keys=.*' "$log"
