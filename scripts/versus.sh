#!/usr/bin/env bash
# Whether a change made anything slower: the programs of another revision and those of this folder, in turn in one run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'EOT'
Usage: scripts/versus.sh [--rounds N] REVISION

Builds the programs of REVISION (in a work tree of git's below target/) and those of this folder as they are released, loads
an agent of each in turn, starts agents and masters again, and measures minting in process alike. Prints
`RATIO name=value (quartile to quartile)`, medians of all rounds, newer to older; above 1 the newer one is better. Takes some
minutes beside the two builds.

  --rounds N   how often everything has its turn (15)
  --help       this text
EOT
}

rounds=15 revision=
while [ $# -gt 0 ]; do
  case $1 in
    --rounds)
      rounds=${2:?"--rounds needs a number"}
      shift
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    -*)
      printf 'versus: unknown argument %s; see --help\n' "$1" >&2
      exit 2
      ;;
    *) revision=$1 ;;
  esac
  shift
done
[ -n "$revision" ] || {
  usage >&2
  exit 2
}

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
commit=$(git rev-parse --verify "$revision^{commit}")
tree=$target/versus/$commit
if [ ! -d "$tree" ]; then
  mkdir -p "$target/versus"
  git worktree prune
  git worktree add --quiet --detach "$tree" "$commit"
fi

# build FOLDER: its released programs; prints the executable that measures minting in process.
build() {
  (
    cd "$1"
    export CARGO_TARGET_DIR=$2
    # Packages were named like their folders before they could be published.
    prefix=$(sed -n 's/^name = "\(.*\)agent"$/\1/p' agent/Cargo.toml)
    cargo build --locked --release -p "${prefix}master" -p "${prefix}agent" --bins >&2
    cargo bench --locked -p "${prefix}agent" --bench peers --no-run --message-format json |
      sed -n 's/.*"executable":"\([^"]*peers-[^"]*\)".*/\1/p' | tail -n 1
  )
}
echo "Building $commit ..." >&2
old_peers=$(build "$tree" "$tree/target")
echo "Building this folder ..." >&2
new_peers=$(build . "$target")
cargo build --locked --release -p tests --bin uniq_bench
exec "$target/release/uniq_bench" versus --rounds "$rounds" --old "$tree/target/release" --new "$target/release" \
  --old-peers "$old_peers" --new-peers "$new_peers"
