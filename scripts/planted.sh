#!/usr/bin/env bash
# Leaves one gate of minting out of the agent at a time, and sees the process tests fail that are there for it.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

usage() {
  cat <<'HELP'
Usage: scripts/planted.sh [--help]

Takes a copy of what is committed, plants one fault in it after the other, builds the agent with it, and runs the test of
tests/tests/agents/minting_bounds.rs that has to fail then. Exits with 0 if each fault is found. Needs some minutes and some GB
in target/planted.
HELP
}

case ${1:-} in
  '') ;;
  -h | --help)
    usage
    exit 0
    ;;
  *)
    printf 'planted: unknown argument %s; see --help\n' "$1" >&2
    exit 2
    ;;
esac

# Name, test, file, and what sed makes of it.
faults=(
  'window-outlives-lease|nothing_is_minted_past_the_end_of_a_lease|agent/engine/src/serials.rs|s/serial.lend(), bucket.valid_until())/serial.lend(), bucket.end())/'
  'mint-past-the-lease|nothing_is_minted_past_the_end_of_a_lease|agent/minting/src/gate.rs|s/ >= lease.until/ >= lease.until + SpanMs::days(15)/; s/end.min(lease.until)/end/'
  'mint-before-durable|no_id_is_out_before_its_mark_is_on_disk|agent/engine/src/serials.rs|s/Plan::Write(marks) => self.write_marks(effects, at, marks)?,/Plan::Write(marks) => { let now = effects.real_boot(); self.series_mut(at)?.serial.commit(marks, now) }/'
  'tick-never-looked-at-again|the_hour_and_the_day_begin_when_the_machines_own_clock_says_so|common/src/clock.rs|s/if seen == (tick.tv_sec, tick.tv_nsec)/if seen.0 != i64::MIN/'
)

copy=target/planted/source
export CARGO_TARGET_DIR=$PWD/target/planted/target
git worktree remove --force "$copy" 2>/dev/null
git worktree add --quiet --detach "$copy" HEAD || exit 1
trap 'git worktree remove --force "$copy"' EXIT

# What these tests say of the programs built there.
runs() {
  local log=$1
  shift
  (
    cd "$copy" && cargo build --locked --quiet --bins &&
      UNIQ_BIN_DIR=$CARGO_TARGET_DIR/debug cargo test --locked --quiet -p processes --test agents -- --test-threads=1 "$@"
  ) >"target/planted/$log.log" 2>&1
}

if ! runs nothing minting_bounds::; then
  printf 'FAILED   with nothing planted: target/planted/nothing.log\n'
  exit 1
fi
missed=0
for fault in "${faults[@]}"; do
  IFS='|' read -r name test file script <<<"$fault"
  sed -i "$script" "$copy/$file"
  if git -C "$copy" diff --quiet; then
    printf 'FAILED   %s: nothing was planted in %s; has it changed?\n' "$name" "$file"
    missed=$((missed + 1))
  elif runs "$name" --exact "minting_bounds::$test"; then
    printf 'MISSED   %s: %s passes with it\n' "$name" "$test"
    missed=$((missed + 1))
  elif ! grep -q 'test result: FAILED' "target/planted/$name.log"; then
    printf 'FAILED   %s: what was planted does not build: target/planted/%s.log\n' "$name" "$name"
    missed=$((missed + 1))
  else
    printf 'found    %s by %s\n' "$name" "$test"
  fi
  git -C "$copy" checkout --quiet -- .
done
exit "$((missed > 0))"
