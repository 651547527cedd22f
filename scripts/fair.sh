#!/usr/bin/env bash
# What a caller gets of an agent while another one asks for several times what it can do.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'EOT'
Usage: scripts/fair.sh [--bins DIR] [--rounds N]

Starts an agent with one thread on a core of this machine, and measures a caller with 64 connections three times: alone, beside
another caller with 256 connections of 16 requests each at a time, and 5 s after that one has gone. Prints the share of its
rate that it keeps, its p99 in milliseconds, and what the other one got. The callers have a core each if there are three; on
one core the first one goes before the other, so that it is the agent that is fought for.

  --bins DIR   take the agent in DIR instead of building it
  --rounds N   how often [default: 3]
  --help       this text
EOT
}

bins='' rounds=3
while [ $# -gt 0 ]; do
  case $1 in
    --bins) bins=${2:?"--bins needs a folder"} && shift ;;
    --rounds) rounds=${2:?"--rounds needs a number"} && shift ;;
    -h | --help)
      usage
      exit 0
      ;;
    *)
      printf 'fair: unknown argument %s; see --help\n' "$1" >&2
      exit 2
      ;;
  esac
  shift
done
target=${CARGO_TARGET_DIR:-target}
if [ -z "$bins" ]; then
  echo "Building as for a release (this takes some minutes the first time) ..." >&2
  cargo build --locked --release -p uniq-agent --bins
  bins=$target/release
fi
cargo build --locked --release -p tests --bin uniq_bench
bench=$target/release/uniq_bench

cores=$(nproc)
on() { taskset -c "$(($1 < cores ? $1 : cores - 1))" "${@:2}"; }
http=127.0.0.1:16299
taskset -c 0 "$bins/uniq_generator" --dev --threads 1 --http-listen "$http" --rpc-listen 127.0.0.1:0 2>"$target/fair.log" &
agent=$!
trap 'kill "$agent" 2>/dev/null; wait "$agent" 2>/dev/null || true' EXIT
sleep 1
until kill -0 "$agent" 2>/dev/null && curl --silent --fail --output /dev/null "http://$http/readyz"; do
  # Whoever else answers there is not to be measured.
  if ! kill -0 "$agent" 2>/dev/null; then
    printf 'fair: the agent did not start:\n' >&2
    tail -n 5 "$target/fair.log" >&2
    exit 1
  fi
  sleep 0.1
done

gentle() { on 1 "$bench" http --target "$http" --from 127.0.0.2 --connections 64 --duration 3s --json; }
greedy() { on 2 chrt --idle 0 "$bench" http --target "$http" --from 127.0.0.3 --connections 256 --depth 16 --duration 5s --json; }
for round in $(seq "$rounds"); do
  alone=$(gentle)
  greedy >"$target/greedy.json" &
  other=$!
  sleep 0.5
  beside=$(gentle)
  wait "$other"
  sleep 5
  after=$(gentle)
  python3 - "$round" "$alone" "$beside" "$after" "$(cat "$target/greedy.json")" <<'EOT'
import json, sys

alone, beside, after, greedy = map(json.loads, sys.argv[2:])
rate = lambda of: of["per_second"] / alone["per_second"]
print(f"round {sys.argv[1]}: keeps={rate(beside):.2f} p99={beside['latency']['p99'] / 1e3:.1f} ms, alone {alone['latency']['p99'] / 1e3:.1f} ms;"
      f" afterwards={rate(after):.2f}; the other one {rate(greedy):.2f}")
EOT
done
