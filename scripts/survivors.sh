#!/usr/bin/env bash
# Changes the source of the pure files bit by bit, and says which changes no test notices.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Another version makes other changes.
version=27.1.0
# By this line a file says that it is pure, or a crate's root that all of them are; tests/tidy/main.rs looks for the same.
pure='^#!\[deny(clippy::disallowed_methods, clippy::disallowed_types)\]$'

usage() {
  cat <<EOF
Usage: scripts/survivors.sh [--shard K/N] [--list] [PATH ...]

Runs cargo-mutants $version (installed if it is missing) with nextest over the pure files, or over those of them at or below the
PATHs, in a copy of the last commit. A change is caught if a test of its package fails then, or of the package that its crate was made
for: unit tests, and for the ledger the golden scripts of masters. First only the quick tests look; what they let live all tests of
these packages see once more. What still lives is either a test that is not there, or a change that changes nothing: such a one is
named, with the reason, in scripts/survivors.toml.

Results are in target/survivors/PACKAGE/mutants.out: missed.txt, and each change as a patch in diff/. Exits with 1 if any lives.

  --shard K/N  only part K, from 0, of N
  --list       say what would be changed, and exit
  --help       this text
EOF
}

args=() paths=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --shard)
      args+=(--shard "${2:?"--shard needs K/N"}")
      shift
      ;;
    --list) args+=(--list) ;;
    -*)
      printf 'survivors: unknown argument %s; see --help\n' "$1" >&2
      exit 2
      ;;
    *) paths+=("${1%/}") ;;
  esac
  shift
done

mapfile -t files < <(
  git grep -l -e "$pure" HEAD -- '*/src/*.rs' | sed 's/^HEAD://' | while read -r file; do
    case $file in
      */src/lib.rs) git ls-tree -r --name-only HEAD "${file%lib.rs}" | grep -Ev 'tests(\.rs|/.*)$' ;;
      *) printf '%s\n' "$file" ;;
    esac
  done | sort
)
if [ ${#paths[@]} -gt 0 ]; then
  chosen=()
  for path in "${paths[@]}"; do
    for file in "${files[@]}"; do
      case $file in
        "$path" | "$path"/*) chosen+=("$file") ;;
      esac
    done
  done
  files=("${chosen[@]}")
fi
if [ ${#files[@]} -eq 0 ]; then
  echo "survivors: no pure file is at or below ${paths[*]}" >&2
  exit 2
fi

if [ "$(cargo mutants --version 2>/dev/null)" != "cargo-mutants $version" ]; then
  cargo install --locked "cargo-mutants@$version"
fi

out=$PWD/${CARGO_TARGET_DIR:-target}/survivors
mkdir -p "$out"
copy=$out/source
export CARGO_TARGET_DIR=$out/target
git worktree remove --force "$copy" 2>/dev/null || true
git worktree add --quiet --force --detach "$copy" HEAD
trap 'git worktree remove --force "$copy"' EXIT

# Whether cargo-mutants ended because changes lived, or tests did not end, and not for a fault.
only_lived() {
  [ "$1" -eq 2 ] || [ "$1" -eq 3 ]
}

# How many lines these files have, as far as they are there.
count() {
  cat "$@" 2>/dev/null | wc -l
}

lived=0 caught=0 unviable=0
for folder in $(printf '%s\n' "${files[@]}" | sed 's:/src/.*::' | uniq); do
  package=uniq-${folder##*/}
  package=${package//_/-}
  # What looks: unit tests, and the tests of the whole package that are pure themselves.
  targets=(--lib) tests=$package
  case $folder in
    common/ids) targets+=(--test ids --test template) ;;
    master/ledger) targets+=(--test golden) tests+=,uniq-master ;;
    agent/minting) tests+=,uniq-serial-file,uniq-engine,uniq-agent ;;
    agent/serial_file) tests+=,uniq-engine,uniq-agent ;;
    agent/engine) tests+=,uniq-agent ;;
  esac
  run=(-p "$package" --test-package "$tests" --config scripts/survivors.toml --in-place --output "$out/$package" --test-tool nextest --colors never --timeout 300)
  for target in "${targets[@]}"; do
    run+=("--cargo-arg=$target")
  done
  # Nothing is optimised: building takes most of the time.
  for name in ${tests//,/ }; do
    run+=("--cargo-arg=--config=profile.dev.package.$name.opt-level=0")
  done
  run+=(--cargo-arg=--config=profile.dev.debug=false)
  for file in "${files[@]}"; do
    case $file in
      "$folder"/src/*) run+=(--file "$file") ;;
    esac
  done
  mkdir -p "$out/$package"
  rm -rf "$out/$package"/mutants.out*
  printf '==== %s\n' "$package"
  (cd "$copy" && NEXTEST_PROFILE=survivors cargo mutants "${run[@]}" "${args[@]}") || only_lived $?
  case " ${args[*]} " in
    *' --list '*) continue ;;
  esac
  result=$out/$package/mutants.out
  caught=$((caught + $(count "$result/caught.txt")))
  unviable=$((unviable + $(count "$result/unviable.txt")))
  if [ -s "$result/missed.txt" ] || [ -s "$result/timeout.txt" ]; then
    printf '==== %s: once more with all tests\n' "$package"
    mapfile -t again < <(cat "$result/missed.txt" "$result/timeout.txt" | sed 's/[][\\.*^$+?(){}|]/\\&/g; s/.*/--re=^&$/')
    (cd "$copy" && cargo mutants "${run[@]}" "${again[@]}" --baseline skip) || only_lived $?
    caught=$((caught + $(count "$result/caught.txt")))
    lived=$((lived + $(count "$result/missed.txt" "$result/timeout.txt")))
    cat "$result/missed.txt" "$result/timeout.txt"
  fi
done
case " ${args[*]} " in
  *' --list '*) exit 0 ;;
esac
printf '%s changes: %s caught, %s lived, %s did not build\n' $((caught + lived + unviable)) "$caught" "$lived" "$unviable"
[ "$lived" -eq 0 ]
