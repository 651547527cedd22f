#!/usr/bin/env bash
# Packs the crates that are published, as `cargo publish` would, and fails on whatever it warns of.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'EOF'
Usage: scripts/package.sh [--no-verify]

Packs the crates that are published into target/package and builds each from what was packed, without the rest of the workspace.
Everything must be committed. Fails if cargo warns of anything, if a package has no README or licence in it or is larger than 512 KiB, or
if there is a package that is neither published nor says `publish = false`.

  --no-verify  pack only (seconds); CI does this
  --help       this text
EOF
}

verify=()
case ${1:-} in
  '') ;;
  --no-verify) verify=(--no-verify) ;;
  -h | --help)
    usage
    exit 0
    ;;
  *)
    printf 'package: unknown argument %s; see --help\n' "$1" >&2
    exit 2
    ;;
esac

# Each after those that it depends on: the order in which they are published.
published=(uniq-ids uniq-wire uniq-common uniq-net uniq-process uniq-minting uniq-serial-file uniq-engine uniq-agent uniq-embed uniq-client)
# Of a package, compressed.
size_max=$((512 * 1024))

target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"
log=$target/package.log
packages=()
for name in "${published[@]}"; do
  packages+=(-p "$name")
done
wrong=0
complain() {
  printf 'package: %s\n' "$1" >&2
  wrong=1
}

# No package is published by mistake, or forgotten.
mapfile -t manifests < <(git ls-files -- 'Cargo.toml' '*/Cargo.toml')
open=$(grep -L '^publish = false$' "${manifests[@]}" | xargs sed -n '/^\[package\]$/,/^\[/s/^name = "\(.*\)"$/\1/p' | sort)
if [ "$open" != "$(printf '%s\n' "${published[@]}" | sort)" ]; then
  complain "without 'publish = false' are: ${open//$'\n'/ }; this script publishes: ${published[*]}"
fi

# A symbolic link would do, where none of the ways by which this source travels turned it into a file with a path in it.
mapfile -t published_manifests < <(grep -L '^publish = false$' "${manifests[@]}" | grep -v '^Cargo.toml$')
for manifest in "${published_manifests[@]}"; do
  for licence in LICENSE-MIT LICENSE-APACHE; do
    cmp -s "$licence" "${manifest%/*}/$licence" || complain "${manifest%/*}/$licence is not the text of $licence"
  done
done

cargo package --locked "${packages[@]}" "${verify[@]}" 2>&1 | tee "$log"
if grep -q '^warning' "$log"; then
  complain "cargo warned: $log"
fi
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
for name in "${published[@]}"; do
  file=$target/package/$name-$version.crate
  list=$(tar --list --gzip --file "$file")
  for needed in Cargo.toml README.md LICENSE-MIT LICENSE-APACHE src/lib.rs; do
    grep -qx "$name-$version/$needed" <<<"$list" || complain "$name has no $needed in it"
  done
  size=$(stat --format %s "$file")
  [ "$size" -le "$size_max" ] || complain "$name has $size bytes, more than $size_max"
  printf '%-12s %7s bytes, %3s files\n' "$name" "$size" "$(wc -l <<<"$list")"
done
exit "$wrong"
