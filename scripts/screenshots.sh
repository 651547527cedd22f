#!/usr/bin/env bash
# Makes the pictures of the console in docs/, of a real pair of masters with real agents.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

command -v chromium >/dev/null || {
  echo "screenshots: chromium is needed; install it with 'apt-get install chromium'" >&2
  exit 1
}
work=$(mktemp -d)
pid=''
finish() {
  if [ -n "$pid" ] && kill -TERM "$pid" 2>/dev/null; then
    wait "$pid" || true
  fi
  rm -rf "$work"
}
trap finish EXIT

base=$((20000 + RANDOM % 10000))
scripts/quickstart.sh --dir "$work/cluster" --port-base "$base" >"$work/log" 2>&1 &
pid=$!
for _ in $(seq 600); do
  curl -sf "localhost:$((base + 10))/readyz" >/dev/null && break
  sleep 0.5
done
curl -sf "localhost:$base/uniq64?n=1000" >/dev/null
chromium --headless=new --no-sandbox --disable-gpu --no-first-run --disable-background-networking \
  --disable-component-update --disable-sync --disable-dev-shm-usage --user-data-dir="$work/browser" \
  --hide-scrollbars --window-size=1200,1010 --timeout=3000 --screenshot="$PWD/docs/console.png" \
  "http://127.0.0.1:$((base + 1101))/" 2>"$work/browser.log" || {
  cat "$work/browser.log" >&2
  exit 1
}
echo "made docs/console.png"
