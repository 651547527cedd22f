#!/usr/bin/env bash
# Everything that must hold, in one command: on a developer's machine, a fresh one, and where changes are checked.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

usage() {
  cat <<'EOF'
Usage: scripts/test.sh [--quick | --strict]

Installs what the tests need, as far as it may (apt as root or by sudo, cargo install, npm), and runs them all:
format, lints, scripts, unit and process tests, doc tests, documentation with its commands, and the quickstart.

  --quick    what says most in the least time, and installs nothing: format, unit and golden tests with the lints of what they
             test, documents, and a hundred seeds of the simulation
  --strict   what had to be left out for want of a tool counts as failed
  --help     this text
EOF
}

strict=false quick=false
case ${1:-} in
  '') ;;
  --quick) quick=true ;;
  --strict) strict=true ;;
  -h | --help)
    usage
    exit 0
    ;;
  *)
    printf 'test: unknown argument %s; see --help\n' "$1" >&2
    exit 2
    ;;
esac

# Line tables are nine tenths of what each test program weighs, and what takes longest to link. Where everything is built once, in an
# empty folder, what cargo keeps to build a changed file again sooner is used by nobody.
needed_gb=15
if $strict || $quick; then
  export CARGO_PROFILE_DEV_DEBUG=0
fi
if $strict; then
  export CARGO_INCREMENTAL=0
  needed_gb=4
fi

summary=() failed=0 left_out=0 began=$SECONDS

# Runs a step, shows how it went and how long it took, and goes on either way.
step() {
  local name=$1 start=$SECONDS status=0
  shift
  printf '\n==== %s\n' "$name"
  "$@" || status=$?
  if [ "$status" -eq 0 ]; then
    summary+=("$(printf 'ok      %5ss  %s' "$((SECONDS - start))" "$name")")
  else
    summary+=("$(printf 'FAILED  %5ss  %s' "$((SECONDS - start))" "$name")")
    failed=$((failed + 1))
  fi
  return "$status"
}

leave_out() {
  printf '\n==== %s: left out, %s\n' "$1" "$2"
  summary+=("$(printf 'LEFT OUT        %s: %s' "$1" "$2")")
  left_out=$((left_out + 1))
}

# Says how all went.
finish() {
  printf '\n==== summary after %s s\n' "$((SECONDS - began))"
  printf '%s\n' "${summary[@]}"
  if [ "$failed" -gt 0 ]; then
    printf '%s of %s steps failed\n' "$failed" "${#summary[@]}"
    return 1
  fi
  if $strict && [ "$left_out" -gt 0 ]; then
    echo "something was left out, and --strict says that this counts"
    return 1
  fi
  echo "all passed"
}

have() { command -v "$1" >/dev/null 2>&1; }

# apt_install COMMAND PACKAGE...: whether the command is there, after an attempt to install it if it was not.
apt_updated=false
apt_install() {
  local command=$1 sudo=()
  shift
  have "$command" && return
  have apt-get || return 1
  if [ "$(id -u)" -ne 0 ]; then
    have sudo && sudo -n true 2>/dev/null || return 1
    sudo=(sudo -n)
  fi
  if ! $apt_updated; then
    "${sudo[@]}" apt-get update -qq || true
    apt_updated=true
  fi
  DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -y -qq --no-install-recommends "$@" >/dev/null
  have "$command"
}

# What is needed.
if ! have cargo; then
  echo "test: cargo is needed; get it from https://rustup.rs" >&2
  exit 1
fi
for component in fmt clippy; do
  cargo "$component" --version >/dev/null 2>&1 && continue
  name=$component
  [ "$name" = fmt ] && name=rustfmt
  if ! { have rustup && rustup component add "$name"; }; then
    echo "test: cargo $component is needed; install it with 'rustup component add $name'" >&2
    exit 1
  fi
done
if ! have cc && ! apt_install cc gcc libc6-dev; then
  echo "test: a C linker is needed; install gcc" >&2
  exit 1
fi
if ! apt_install curl curl ca-certificates; then
  echo "test: curl is needed; please install it" >&2
  exit 1
fi
if ! cargo nextest --version >/dev/null 2>&1; then
  echo "Installing cargo-nextest (once) ..."
  cargo install cargo-nextest --locked || true
fi
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"

# The crates of process tests take longest to compile, and --quick runs none of those tests.
quick_packages=(--workspace --exclude tests --exclude processes)

# Unit tests wait more than they compute, so that many run at once. One of them alone computes for more than a minute.
quick_tests() {
  if cargo nextest --version >/dev/null 2>&1; then
    cargo nextest run --locked "${quick_packages[@]}" --lib --test golden --test tidy --test-threads "$((3 * $(nproc)))" \
      -E 'not test(without_a_mechanism_numbers_come_out_of_order)'
  else
    cargo test --locked "${quick_packages[@]}" --lib --test golden --test tidy -- --skip without_a_mechanism_numbers_come_out_of_order
  fi
}

hundred_seeds() {
  cargo build --locked "${quick_packages[@]}" --bin simulate --test golden --test tidy && "$target/debug/simulate" --seeds 100
}

if $quick; then
  step "format" cargo fmt --all --check
  if have shellcheck; then
    step "scripts" shellcheck .ci/run scripts/*.sh
  else
    leave_out "scripts" "shellcheck is not installed"
  fi
  # Clippy's compiler makes what is tested, so that nothing is compiled twice; it lints that alone, and not the process tests.
  export RUSTC_WORKSPACE_WRAPPER=clippy-driver RUSTFLAGS="${RUSTFLAGS:-} -D warnings"
  step "lints and tests" quick_tests
  step "simulation" hundred_seeds
  finish
  exit
fi

browser=true
apt_install chromium chromium || browser=false
apt_install chromedriver chromium-driver || browser=false
# What checks that everybody can use the console's pages.
if $browser && { ! have npm || ! npm ci --prefix tests/browser --no-audit --no-fund --loglevel=error; }; then
  echo "test: npm is needed for the browser tests; install Node.js" >&2
  browser=false
fi

# Network namespaces with a bridge and packet filters: by the kernel and by right, not only by tools.
namespaces=true
apt_install ip iproute2 && PATH=$PATH:/usr/sbin apt_install nft nftables || namespaces=false
namespaces_work() {
  local way
  for way in '' '--user --map-root-user'; do
    # shellcheck disable=SC2016,SC2086 # $PATH of the shell inside; words on purpose
    unshare $way --net --mount sh -c 'PATH=$PATH:/usr/sbin:/sbin
      mount -t tmpfs none /run && mkdir /run/netns && ip netns add a && ip link add name uniq0 type bridge &&
      ip link add name uniq1 type veth peer name uniq2 netns a && nsenter --net=/run/netns/a nft add table inet t' 2>/dev/null && return
  done
  return 1
}
$namespaces && ! namespaces_work && namespaces=false

# What puts serial files back and copies them, and a file system whose copies share their blocks: tests/tests/agents/file_systems.rs
# leaves out what is not there.
mounts=true
{ apt_install rsync rsync && PATH=$PATH:/usr/sbin apt_install mkfs.xfs xfsprogs; } || mounts=false
# And one with snapshots: tests/tests/agents/snapshots.rs leaves it out, and says so, if it is not there.
PATH=$PATH:/usr/sbin apt_install mkfs.btrfs btrfs-progs || true
# A file system that another program serves, which agents refuse; the one test that needs it leaves itself out without.
apt_install bindfs bindfs || true
mounts_work() {
  unshare --mount sh -c 'mount -t tmpfs none /mnt' 2>/dev/null || unshare --user --map-root-user --mount sh -c 'mount -t tmpfs none /mnt' 2>/dev/null
}
$mounts && ! mounts_work && mounts=false

# What makes clients from the agents' description, a JDK and Go: tests/tests/applications/foreign_clients.rs leaves out, and says so, what is not there.
makers_of_clients() {
  local tools
  tools=$(realpath "$target")/clients
  python3 -m venv "$tools" && "$tools/bin/pip" install --quiet --disable-pip-version-check -r tests/clients/requirements.txt &&
    cp tests/clients/package.json tests/clients/package-lock.json "$tools" &&
    npm ci --prefix "$tools" --no-audit --no-fund --loglevel=error || return
  export UNIQ_CLIENTS=$tools
}
makers_of_clients || echo "test: clients are not made from the OpenAPI description: that takes Python with venv, npm, PyPI and the npm registry" >&2
apt_install javac openjdk-17-jdk-headless || true
apt_install go golang-go || true

# A compiler that finds the disk full says so in the middle of a hundred other lines.
room_gb=$(($(df -Pk "$target" | awk 'NR == 2 { print $4 }') / 1024 / 1024))
if [ "$room_gb" -lt "$needed_gb" ] && [ ! -d "$target/debug" ]; then
  echo "test: $room_gb GB are free under $(realpath "$target"), and the programs and tests take about $needed_gb GB: make room, or set CARGO_TARGET_DIR" >&2
fi

# Processes that run now from the programs built here: at the end there must be no further one.
built=$(realpath -m "$target/debug")
ours() {
  local exe
  for exe in /proc/[0-9]*/exe; do
    case $(readlink "$exe" 2>/dev/null) in
      "$built"/uniq_master* | "$built"/uniq_generator*) printf '%s\n' "${exe%/exe}" ;;
    esac
  done | sort
}
before=$(ours)
nothing_left_behind() {
  local left
  left=$(comm -13 <(printf '%s\n' "$before") <(ours))
  [ -z "$left" ] && return
  echo "still running: $left" >&2
  return 1
}

process_tests() {
  local filter='all()'
  $browser || filter+=' and not (package(processes) and test(/^pages::/))'
  if $namespaces; then
    # Then no test may leave itself out.
    export UNIQ_NETNS=required
  else
    filter+=' and not (package(processes) and test(/^partition::/))'
  fi
  if $mounts; then
    export UNIQ_MOUNTS=required
  fi
  if cargo nextest --version >/dev/null 2>&1; then
    UNIQ_BIN_DIR=$target/debug cargo nextest run --locked --workspace --no-tests=pass --test-threads "$(($(nproc) + 2))" \
      -E "$filter"
  else
    UNIQ_BIN_DIR=$target/debug cargo test --locked --workspace -- --test-threads=1
  fi
}

# A port base that nobody uses: quickstart refuses a taken one, then another is drawn.
quickstart() {
  local dir status=0 kind started
  dir=$(mktemp -d)
  # tried KIND: with TLS or without.
  tried() {
    local flags=(--once --port-base $((12000 + RANDOM % 15000)) --dir "$dir/$1")
    [ "$1" = plain ] || flags+=(--tls)
    UNIQ_BIN_DIR=$target/debug scripts/quickstart.sh "${flags[@]}"
  }
  for kind in plain tls; do
    started=false
    for _ in 1 2 3; do
      tried "$kind" && started=true && break
    done
    # Once more in the same folder: what is there is continued.
    $started && tried "$kind" || status=1
  done
  rm -rf "$dir"
  return "$status"
}

# What applications link builds without the program, and pulls nothing of it in.
library_alone() {
  cargo clippy --locked -p uniq-agent --lib --no-default-features -- -D warnings || return
  ! cargo tree --locked -p uniq-embed --edges normal --prefix none |
    grep -E '^(axum|clap|hyper|sled|toml|utoipa) '
}

step "format" cargo fmt --all --check
if apt_install shellcheck shellcheck; then
  step "scripts" shellcheck .ci/run scripts/*.sh
else
  leave_out "scripts" "shellcheck cannot be installed here"
fi
step "lints" cargo clippy --locked --workspace --all-targets -- -D warnings
step "library" library_alone
# The tests need the programs too, and with them come other features of what both use: built alone they would be built twice.
if step "programs" cargo test --locked --workspace --no-run --quiet; then
  step "tests" process_tests
  $namespaces || leave_out "partitions" "network namespaces with ip and nft cannot be had here"
  $mounts || leave_out "file systems" "rsync, mkfs.xfs or mounts in a namespace of our own cannot be had here"
  $browser || leave_out "browser tests" "chromium, chromium-driver or axe-core cannot be installed here"
  step "quickstart" quickstart
  if apt_install python3 python3; then
    step "commands in documents" env UNIQ_BIN_DIR="$target/debug" scripts/docs.sh --check
  else
    leave_out "commands in documents" "python3 cannot be installed here"
  fi
fi
step "doc tests" cargo test --locked --workspace --doc --quiet
step "documentation" env RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --quiet
# Cargo packs what is committed; to build from what was packed is for a release.
if [ -z "$(git status --porcelain 2>/dev/null)" ]; then
  step "packages" scripts/package.sh --no-verify
else
  leave_out "packages" "not everything is committed"
fi
if cargo deny --version >/dev/null 2>&1; then
  step "dependencies" cargo deny --all-features check bans licenses sources
fi
step "nothing left behind" nothing_left_behind

finish
