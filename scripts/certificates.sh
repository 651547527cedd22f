#!/usr/bin/env bash
# Makes a CA and the certificates of a cluster, by openssl.
set -euo pipefail
umask 077

usage() {
  cat <<'EOF'
Usage: scripts/certificates.sh [--days N] DIR ROLE[@ADDRESS,...] ...
       scripts/certificates.sh --revoke DIR ROLE ...

Makes a CA in DIR if there is none (ca.pem, and ca.key, which nobody needs but this script), and for each ROLE a certificate
and its key. The ADDRESSes, IP addresses or DNS names, are for browsers, curl and other HTTP clients; programs of UniqGenerator know
each other by the role.

  scripts/certificates.sh tls master/1@10.0.0.1 master/2@10.0.0.2 agent/orders-1@10.0.0.11,ids.example.com client/billing

makes tls/ca.pem, tls/master-1.pem, tls/master-1.key and so on. A certificate that is there already is made anew, which is how it
is renewed: put it in the place of the old one, and the program reads it within 10 s.

  --days N  how long they are valid (90); a CA is valid for ten years
  --revoke  revoke every certificate that a ROLE has by now, whoever made it, by a line in DIR/ca.pem; put that file in the place of each
            program's and application's, and then make a new certificate for the ROLE if it goes on. Where masters issue the
            certificates, revoke them at a master's console instead
  --help    this text
EOF
}

fail() {
  printf 'certificates: %s\n' "$1" >&2
  exit 2
}

days=90 revoke=false
while [[ ${1:-} == -* ]]; do
  case $1 in
    --days)
      days=${2:-}
      [[ $days =~ ^[1-9][0-9]{0,4}$ ]] || fail '--days takes a number of days'
      shift 2
      ;;
    --revoke)
      revoke=true
      shift
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    *) fail "unknown argument $1; see --help" ;;
  esac
done
[ $# -ge 2 ] || fail 'say where to put them, and for whom; see --help'
# openssl, quiet unless it fails; what it says first is why.
quietly() {
  local said
  said=$(openssl "$@" 2>&1) || fail "openssl $1: $(head -n 3 <<<"$said")"
}

command -v openssl >/dev/null || fail 'openssl is missing: install the package openssl'
dir=$1
shift
$revoke || mkdir -p "$dir"
made=
trap '[ -z "$made" ] || rm -rf "$made"' EXIT

new_key=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)
if [ ! -e "$dir/ca.pem" ]; then
  ! $revoke || fail "there is no CA in $dir"
  # A CA has a name of its own, by which its list of revoked certificates is known: that of its key, so that masters can issue by it, too.
  quietly genpkey -algorithm EC -pkeyopt ec_paramgen_curve:prime256v1 -out "$dir/ca.key"
  hash=$(openssl pkey -in "$dir/ca.key" -pubout -outform DER | openssl dgst -sha256 -r | cut -c1-16)
  quietly req -x509 -key "$dir/ca.key" -out "$dir/ca.pem" -days 3650 -subj "/CN=UniqGenerator CA $hash" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign
  printf 'made the CA %s\n' "$dir/ca.pem"
fi
$revoke || [ -e "$dir/ca.key" ] || fail "$dir/ca.key is missing: the CA's key is needed to issue a certificate"

# revoke_all ROLE: its certificates, by a line before those of the CAs; the former line of the ROLE goes.
revoke_all() {
  made=$(mktemp -d "$dir/.new.XXXXXX")
  {
    printf 'Revoked: %s %s\n' "$1" "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
    awk -v role="$1" '!(tolower($1) == "revoked:" && $2 == role)' "$dir/ca.pem"
  } >"$made/ca"
  # Whoever reads it goes on to.
  chmod --reference="$dir/ca.pem" "$made/ca"
  chown --reference="$dir/ca.pem" "$made/ca"
  mv "$made/ca" "$dir/ca.pem"
  rm -r "$made"
  printf 'revoked what %s has by now: put %s in the place of every ca.pem\n' "$1" "$dir/ca.pem"
}

for whom in "$@"; do
  role=${whom%%@*}
  [[ $role =~ ^(master/[12]|(agent|client)/[A-Za-z0-9._:-]{1,64})$ ]] ||
    fail "'$role' is no role: master/1, master/2, agent/NAME or client/NAME"
  if $revoke; then
    revoke_all "$role"
    continue
  fi
  names="URI:uniq://$role"
  if [[ $whom == *@* ]]; then
    IFS=, read -ra addresses <<<"${whom#*@}"
    for address in "${addresses[@]}"; do
      case $address in
        *[!0-9.]*) [[ $address == *:* ]] && names+=",IP:$address" || names+=",DNS:$address" ;;
        *) names+=",IP:$address" ;;
      esac
    done
  fi
  # Agents and clients have no + in their names.
  name=${role//\//-}
  name=${name//:/+}
  file=$dir/$name
  made=$(mktemp -d "$dir/.new.XXXXXX")
  quietly req -new "${new_key[@]}" -keyout "$made/key" -out "$made/request" -subj "/CN=${name:0:60}"
  printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth,clientAuth\nbasicConstraints=CA:FALSE\n' "$names" >"$made/extensions"
  quietly x509 -req -in "$made/request" -CA "$dir/ca.pem" -CAkey "$dir/ca.key" -days "$days" -extfile "$made/extensions" \
    -out "$made/pem"
  mv "$made/key" "$file.key"
  mv "$made/pem" "$file.pem"
  rm -r "$made"
  printf 'made %s.pem for uniq://%s, valid for %s days\n' "$file" "$role" "$days"
done
