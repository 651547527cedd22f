#!/usr/bin/env bash
# Makes the pictures of the console in docs/operate/console/, of a real pair of masters with real agents, in a real browser.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for program in chromium chromedriver; do
  command -v "$program" >/dev/null || {
    echo "screenshots: $program is needed; install it with 'apt-get install chromium chromium-driver fonts-noto-cjk'" >&2
    exit 1
  }
done
cargo build --locked --bins
UNIQ_BIN_DIR=${CARGO_TARGET_DIR:-target}/debug
export UNIQ_BIN_DIR
exec "$UNIQ_BIN_DIR/screenshots" docs/operate/console "$@"
