#!/usr/bin/env bash
# The long form of the partition test: pairs of masters cut from each other every way, again and again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case ${1:-} in
  -h | --help)
    cat <<'HELP'
Usage: scripts/partition.sh [ROUNDS]

Three pairs of masters with their agents, each process on a machine of its own (a network namespace), are cut from each
other side by side: both ways, packets of one way, messages of one way; 20 rounds if nothing else is said, each cut for up to
20 seconds longer than it takes to see that nothing is granted and renewals go on. At the end no ID may have come twice.
Needs root or user namespaces, ip (iproute2) and nft (nftables).
HELP
    exit 0
    ;;
esac
cargo build --release --locked --bins -p uniq-master -p uniq-agent
export UNIQ_BIN_DIR=${CARGO_TARGET_DIR:-target}/release UNIQ_PARTITION_ROUNDS=${1:-20} UNIQ_NETNS=required
cargo test --locked -p processes --test programs partition:: -- --nocapture
