#!/usr/bin/env bash
# Two masters and two agents on loopback, from nothing, with one command.
set -euo pipefail

usage() {
  cat <<'EOF'
Usage: scripts/quickstart.sh [--once] [--tls] [--port-base N] [--dir D]

Starts two masters and two agents on loopback, says where everything is, and stays up until Ctrl-C. They get certificates by invitations
and speak TLS, as on several machines; the agents' HTTP and the consoles are plain HTTP, for programs of this machine.
Run again, it goes on where it stopped: the agents keep their tokens, and no ID comes twice.

  --once         mint some IDs of every kind through both agents, check them, stop, exit with 0
  --tls          the agents' HTTP and the consoles speak TLS, too, and callers have a certificate
  --port-base N  the first agent listens on N instead of 6200, everything else as far from it as usual:
                 agents N and N+10 (RPC N+1 and N+11), masters N+901/N+1001/N+1101 and N+902/N+1002/N+1102
  --dir D        keep stores, serial files and logs in D instead of ./.quickstart
  --help         this text

UNIQ_BIN_DIR names a folder with both programs; without it they are built here if need be, for trying and hardly optimised (profile
'quick'; 'cargo build --release' makes what is shipped).
EOF
}

say() { printf '%s\n' "$*"; }
fail() {
  printf 'quickstart: %s\n' "$*" >&2
  exit 1
}
wrong() {
  printf 'quickstart: %s; see --help\n' "$*" >&2
  exit 2
}

once=false tls=false port_base=6200 dir=''
while [ $# -gt 0 ]; do
  case $1 in
    --once) once=true ;;
    --tls) tls=true ;;
    --port-base | --dir)
      [ $# -ge 2 ] || wrong "$1 needs a value"
      if [ "$1" = --dir ]; then dir=$2; else port_base=$2; fi
      shift
      ;;
    --port-base=*) port_base=${1#*=} ;;
    --dir=*) dir=${1#*=} ;;
    -h | --help)
      usage
      exit 0
      ;;
    *) wrong "unknown argument '$1'" ;;
  esac
  shift
done
readonly FARTHEST=1102
case $port_base in '' | *[!0-9]*) wrong "--port-base '$port_base' is not a port" ;; esac
# Ten digits could mean something else to the shell's arithmetic, so the length is looked at first.
if [ ${#port_base} -gt 5 ] || [ "$((10#$port_base))" -lt 1024 ] || [ "$((10#$port_base + FARTHEST))" -gt 65535 ]; then
  wrong "--port-base must be from 1024 to $((65535 - FARTHEST))"
fi
port_base=$((10#$port_base))
command -v curl >/dev/null || fail "curl is needed to ask the programs whether they are ready; please install it"

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case $dir in
  '') dir=$here/.quickstart ;;
  /*) ;;
  *) dir=$PWD/$dir ;;
esac
cd "$here"

# The programs.
if [ -n "${UNIQ_BIN_DIR:-}" ]; then
  bin=$(cd "$UNIQ_BIN_DIR" 2>/dev/null && pwd) || fail "there is no folder $UNIQ_BIN_DIR (UNIQ_BIN_DIR)"
else
  command -v cargo >/dev/null || fail "cargo is needed to build the programs; get it from https://rustup.rs"
  say "Building uniq_master and uniq_generator for trying (profile 'quick'); on two cores two to three minutes the first time ..."
  cargo build --profile quick --locked --bins -p uniq-master -p uniq-agent
  bin=$(cd "${CARGO_TARGET_DIR:-target}/quick" && pwd)
fi
for program in uniq_master uniq_generator; do
  [ -x "$bin/$program" ] || fail "there is no $bin/$program; build it with 'cargo build --bins'"
done
# Flags of the programs may be set by environment; a leftover of somebody's must not change what starts here.
for name in $(compgen -e UNIQ_ || true); do unset "$name"; done

# Name, then the ports: of an agent HTTP and RPC; of a master for agents, for the other master and for the console.
readonly LOOPBACK=127.0.0.1
agent_http=($((port_base)) $((port_base + 10)))
agent_rpc=($((port_base + 1)) $((port_base + 11)))
master_agent=($((port_base + 901)) $((port_base + 902)))
master_peer=($((port_base + 1001)) $((port_base + 1002)))
master_web=($((port_base + 1101)) $((port_base + 1102)))
for port in "${agent_http[@]}" "${agent_rpc[@]}" "${master_agent[@]}" "${master_peer[@]}" "${master_web[@]}"; do
  if (exec 3<>"/dev/tcp/$LOOPBACK/$port") 2>/dev/null; then
    fail "port $port is taken, perhaps by another quickstart; stop it, or move this one with --port-base N"
  fi
done

# Whatever happens from here on: every process started is gone before this script is.
pids=() names=()
# shellcheck disable=SC2317 # the trap calls it
stop_all() {
  trap - EXIT
  trap '' INT TERM HUP
  local pid left
  for pid in ${pids[@]+"${pids[@]}"}; do kill -TERM "$pid" 2>/dev/null || true; done
  for _ in $(seq 100); do
    left=false
    for pid in ${pids[@]+"${pids[@]}"}; do kill -0 "$pid" 2>/dev/null && left=true; done
    $left || break
    sleep 0.1
  done
  for pid in ${pids[@]+"${pids[@]}"}; do kill -KILL "$pid" 2>/dev/null || true; done
  rm -f "$dir/invitation"
  wait 2>/dev/null || true
}
trap stop_all EXIT
trap 'say ""; say "Stopping ..."; exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

start() {
  local name=$1
  shift
  "$@" >>"$dir/$name.log" 2>&1 </dev/null &
  pids+=($!)
  names+=("$name")
}

# Says which process ended, and what it said last.
report_dead() {
  local nth name
  for nth in "${!pids[@]}"; do
    name=${names[$nth]}
    kill -0 "${pids[$nth]}" 2>/dev/null && continue
    printf 'quickstart: %s ended; its log is %s and says at the end:\n' "$name" "$dir/$name.log" >&2
    tail -n 5 "$dir/$name.log" | sed 's/^/    /' >&2
  done
}

alive() {
  local pid
  for pid in "${pids[@]}"; do kill -0 "$pid" 2>/dev/null || return 1; done
}

# fetch PORT/PATH [option of curl ...]: an answer, with the certificate that was invited, if there is one.
scheme=http with=()
fetch() {
  local url=$scheme://$LOOPBACK:$1
  shift
  curl -fsS --noproxy '*' --max-time 30 ${with[@]+"${with[@]}"} "$@" "$url"
}

# Waits until loopback:$2/readyz says yes.
ready() {
  local name=$1 port=$2
  for _ in $(seq 600); do
    fetch "$port/readyz" -o /dev/null --max-time 5 2>/dev/null && return
    if ! alive; then
      report_dead
      exit 1
    fi
    sleep 0.1
  done
  fail "$name was not ready after a minute: $(fetch "$port/readyz" --no-fail --max-time 5 2>&1 || true); its log is $dir/$name.log"
}

mkdir -p "$dir"
# Of names with the encoding ff1: both agents need the same one.
secret=$dir/uniq.secret
[ -s "$secret" ] || (umask 077 && od -An -v -N32 -tx1 /dev/urandom | tr -d ' \n' >"$secret")
resumed=false
[ ! -e "$dir/master-1/ledger" ] || resumed=true
if [ -e "$dir/master-2/ledger" ] && [ ! -e "$dir/master-2/tls/own.pem" ]; then
  fail "$dir was made without certificates, by an earlier version: remove it, or name another folder with --dir"
fi
plain=plain:
! $tls || plain=''

# The flags of a master, by its number less one.
master() {
  flags=(--data-dir "$dir/master-$(($1 + 1))" --agent-listen "$LOOPBACK:${master_agent[$1]}"
    --peer-listen "$LOOPBACK:${master_peer[$1]}" --peer "$LOOPBACK:${master_peer[$((1 - $1))]}"
    --web-listen "$plain$LOOPBACK:${master_web[$1]}" --tls-dir "$dir/master-$(($1 + 1))/tls")
}

# invited FILE ROLE: a line from master 1, by which a program gets its certificate.
invited() {
  master 0
  (umask 077 && "$bin/uniq_master" "${flags[@]}" --invite "$2" >"$1" 2>>"$dir/master-1.log") || fail "master 1 invites no $2: $(tail -n 1 "$dir/master-1.log")"
}

# made NAME WHAT PROGRAM FLAG...: runs a program that makes WHAT.
made() {
  local name=$1 what=$2
  shift 2
  "$@" >>"$dir/$name.log" 2>&1 || fail "cannot make $what: $(tail -n 1 "$dir/$name.log")"
}

invitation=$dir/invitation by=()
# Whether the certificate in a folder, which is good for 30 days, may have ended while nothing ran.
old() { [ -n "$(find "$1/own.pem" -mtime +15)" ]; }
# Waits until a master can invite others.
can_invite() {
  for _ in $(seq 600); do
    if ! alive || (exec 3<>"/dev/tcp/$LOOPBACK/${master_agent[0]}") 2>/dev/null; then return; fi
    sleep 0.1
  done
}
for nth in 1 2; do
  [ ! -e "$dir/master-$nth/ledger" ] || continue
  if [ "$nth" = 2 ]; then
    # For the invitation alone: two masters that start together meet soonest.
    master 0
    start master-1 "$bin/uniq_master" "${flags[@]}"
    can_invite
    invited "$invitation" master
    by=(--invitation "$invitation")
  fi
  made "master-$nth" "the store of master $nth" "$bin/uniq_master" --format --data-dir "$dir/master-$nth" --id "$nth" \
    ${by[@]+"${by[@]}"}
  if [ ${#pids[@]} -gt 0 ]; then
    kill "${pids[0]}"
    wait "${pids[0]}" || true
    pids=() names=()
  fi
done
for nth in 1 2; do
  master $((nth - 1))
  start "master-$nth" "$bin/uniq_master" "${flags[@]}"
done
can_invite
for nth in 1 2; do
  serial=$dir/agent-$nth.serial
  if [ ! -e "$serial" ]; then
    invited "$invitation" "agent/agent-$nth"
    made "agent-$nth" "the serial file of agent $nth" "$bin/uniq_generator" --format --serial-file "$serial" --invitation "$invitation"
  elif [ ! -e "$serial.tls/own.pem" ] || old "$serial.tls"; then
    invited "$invitation" "agent/agent-$nth"
    made "agent-$nth" "the certificate of agent $nth" "$bin/uniq_generator" --serial-file "$serial" --invitation "$invitation"
  fi
  start "agent-$nth" "$bin/uniq_generator" --serial-file "$serial" --secret-file "$secret" \
    --masters "$LOOPBACK:${master_agent[0]},$LOOPBACK:${master_agent[1]}" --agent-id "agent-$nth" \
    --http-listen "$plain$LOOPBACK:${agent_http[$((nth - 1))]}" --rpc-listen "$LOOPBACK:${agent_rpc[$((nth - 1))]}"
done
if $tls; then
  if [ ! -e "$dir/client/own.pem" ] || old "$dir/client"; then
    invited "$invitation" client/quickstart
    made client "the certificate of a client" "$bin/uniq_generator" --tls-dir "$dir/client" --invitation "$invitation"
  fi
  scheme=https with=(--cacert "$dir/client/ca.pem" --cert "$dir/client/own.pem")
fi
rm -f "$invitation"
if $resumed; then
  say "Going on with what is in $dir ..."
else
  say "Made two stores and two serial files in $dir ..."
fi

for nth in 0 1; do ready "master-$((nth + 1))" "${master_web[$nth]}"; done
for nth in 0 1; do ready "agent-$((nth + 1))" "${agent_http[$nth]}"; done

ask() { fetch "$1/$2"; }

# The value of a plain field in a JSON object on stdin.
field() { sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p" | head -n 1; }

# IDs of one kind through both agents: as many as asked for, none twice, and each agent explains what the other minted.
check() {
  local kind=$1 path=$2 count=500 nth ids explained
  ids=$(mktemp "$dir/once.XXXXXX")
  for nth in 0 1; do
    ask "${agent_http[$nth]}" "$path&n=$count" >>"$ids" || fail "agent $((nth + 1)) gave no $kind"
    ask "${agent_http[$nth]}" "$path" >>"$ids" || fail "agent $((nth + 1)) gave no $kind"
  done
  local expected=$((2 * count + 2)) received distinct
  received=$(grep -c . "$ids")
  distinct=$(sort -u "$ids" | grep -c .)
  [ "$received" -eq "$expected" ] || fail "$received $kind came, not $expected"
  [ "$distinct" -eq "$expected" ] || fail "$((expected - distinct)) $kind came twice"
  local first last id token serial
  first=$(head -n 1 "$ids") last=$(tail -n 1 "$ids")
  rm -f "$ids"

  for nth in 0 1; do
    if [ "$kind" = string ]; then
      if [ "$nth" -eq 0 ]; then id=$last; else id=$first; fi
      token=${id:12:2} serial=$((10#${id:14:8}))
    else
      # The uri form says token and serial in plain text; its slashes must not be taken for the path's.
      id=$(ask "${agent_http[$((1 - nth))]}" "$path&format=uri")
      serial=${id##*/} token=${id%/*} token=${token##*/}
      id=${id//\//%2F}
    fi
    explained=$(ask "${agent_http[$nth]}" "explain/$id") || fail "agent $((nth + 1)) cannot explain $id"
    [ "$(field kind <<<"$explained")" = "$kind" ] || fail "$id is no $kind: $explained"
    [ "$(field token <<<"$explained")" = "$token" ] || fail "$id carries token $token: $explained"
    [ "$(field serial <<<"$explained")" = "$serial" ] || fail "$id carries serial $serial: $explained"
  done
  printf '  %-7s %5s IDs through two agents, none twice, explained; e.g. %s\n' "$kind" "$received" "$first"
}

if $once; then
  check uniq64 'uniq64?'
  check uniq96 'uniq96?'
  check string 'string?biz=ORDR&custom=01'
  coupons='{"kind":"layout","layout":"snowflake","encoding":"ff1"}'
  fetch "${agent_http[0]}/generators/coupons" -X PUT -d "$coupons" -o /dev/null ||
    fail "agent 1 registered no name for numbers that nobody can guess"
  coupons=$(ask "${agent_http[0]}" 'id/coupons?n=2' && ask "${agent_http[1]}" 'id/coupons?n=2') || fail "no coupons came"
  [ "$(sort -u <<<"$coupons" | grep -c .)" -eq 4 ] || fail "coupons came twice: $coupons"
  printf '  %-7s %5s IDs through two agents, none twice; e.g. %s\n' ff1 4 "${coupons%%$'\n'*}"
  say "All well."
  exit 0
fi

curl="curl${with[*]+ ${with[*]}}"
cat <<EOF

UniqGenerator is up.
  agents   $scheme://$LOOPBACK:${agent_http[0]}  $scheme://$LOOPBACK:${agent_http[1]}
  console  $scheme://$LOOPBACK:${master_web[0]}/  $scheme://$LOOPBACK:${master_web[1]}/
           user admin, password in $dir/master-1/admin-password
  files    $dir (master-*.log and agent-*.log beside the stores and serial files)

Try:
  $curl $scheme://$LOOPBACK:${agent_http[0]}/uniq64
  $curl '$scheme://$LOOPBACK:${agent_http[1]}/uniq96?n=3&format=uri'
  $curl '$scheme://$LOOPBACK:${agent_http[0]}/string?biz=ORDR&custom=01&n=3'
  $curl -X PUT $scheme://$LOOPBACK:${agent_http[0]}/generators/coupons -d '{"kind":"layout","layout":"snowflake","encoding":"ff1"}'
  $curl '$scheme://$LOOPBACK:${agent_http[1]}/id/coupons?n=3'
  $curl $scheme://$LOOPBACK:${agent_http[1]}/explain/\$($curl -s $scheme://$LOOPBACK:${agent_http[0]}/uniq64)
  $curl -c '$dir/cookie' -d user=admin -d "password=\$(cat '$dir/master-1/admin-password')" $scheme://$LOOPBACK:${master_web[0]}/login
  $curl -b '$dir/cookie' $scheme://$LOOPBACK:${master_web[0]}/api/leases

Ctrl-C stops everything; run it again to go on.
EOF
# Ends when the first of them does, which none should.
wait -n "${pids[@]}" 2>/dev/null || true
report_dead
exit 1
