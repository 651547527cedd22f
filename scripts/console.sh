#!/usr/bin/env bash
# How long the console takes over the largest table there is, and how much memory the masters do.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case ${1:-} in
  -h | --help)
    cat <<'HELP'
Usage: scripts/console.sh

Makes two masters with 65,536 leases each, asks one's console for the table, filters and the API twenty times each (release
build), and prints how long the whole answers took and the memory of both masters. Targets: the first page of the table below
200 ms, a filter below 100 ms, a master below 200 MB.
HELP
    exit 0
    ;;
esac
cargo build --release --locked --bins -p uniq-master -p uniq-agent
export UNIQ_BIN_DIR=${CARGO_TARGET_DIR:-target}/release
exec cargo run --release --locked -p tests --example console_table
