#!/usr/bin/env bash
# Makes a book of the documents, with a search, to be read in a browser; or checks the commands in them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'HELP'
Usage: scripts/docs.sh [--serve | --check]

Makes a book of docs/, README.md and the pages beside it, in the order of the index docs/README.md, and says where it is. Installs
mdBook into the target folder once, which takes some minutes.

  --serve  show it at http://127.0.0.1:3000 until interrupted
  --check  make no book, but try the commands of all pages with the programs in UNIQ_BIN_DIR, or else in target/debug:
           flags, settings and requests that there are, and calls of an agent that are answered; needs Python and curl
  --help   this text
HELP
}

serve=false
case ${1:-} in
  '') ;;
  --serve) serve=true ;;
  --check) exec python3 scripts/examples.py ;;
  -h | --help)
    usage
    exit 0
    ;;
  *)
    printf 'docs: unknown argument %s; see --help\n' "$1" >&2
    exit 2
    ;;
esac

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
mdbook=$target/tools/bin/mdbook version=0.5.4
if [ "$("$mdbook" --version 2>/dev/null)" != "mdbook v$version" ]; then
  echo "Installing mdBook $version (once) ..." >&2
  cargo install mdbook --version "$version" --locked --quiet --root "$target/tools"
fi

book=$target/book
rm -rf "$book"
mkdir -p "$book/src"
cp -r ./*.md LICENSE-* docs "$book/src"
cat >"$book/book.toml" <<'TOML'
[book]
title = "UniqGenerator"
language = "en"
TOML

declare -A listed=()
# entry PAGE INDENT: a line of the table of contents, once for each page.
entry() {
  [ -z "${listed[$1]:-}" ] || return 0
  listed[$1]=yes
  printf '%s- [%s](%s)\n' "$2" "$(sed -n 's/^# //p' "$1" | head -n 1)" "$1"
}
# Pages in a folder that is named like a page, or whose README it is, stand below it.
contents() {
  local line page child folder
  printf '# Summary\n\n'
  entry README.md ''
  entry docs/README.md ''
  while IFS= read -r line; do
    case $line in '## '*) printf '\n# %s\n\n' "${line#'## '}" ;; esac
    while IFS= read -r page; do
      page=$(realpath --relative-to=. "docs/$page")
      entry "$page" ''
      folder=${page%.md}
      [ "${page##*/}" != README.md ] || folder=${page%/*}
      [ "$folder" != docs ] || continue
      for child in "$folder"/*.md; do
        [ ! -e "$child" ] || entry "$child" '  '
      done
    done < <(grep -oE '\]\([A-Za-z_./-]+\.md' <<<"$line" | cut -c3-)
  done <docs/README.md
  for page in *.md; do
    [ "$page" = SUMMARY.md ] || entry "$page" ''
  done
}
(cd "$book/src" && contents >"$book/SUMMARY.md" && mv "$book/SUMMARY.md" SUMMARY.md)

"$mdbook" build "$book" >&2
# mdBook makes index.html of README.md, but leaves links to README.html.
find "$book/book" -name index.html -execdir cp {} README.html ';'
# A page that the index does not lead to would be missing.
missing=$(cd "$book/src" && find . -name '*.md' ! -name SUMMARY.md | sed -e 's|^\./||' -e 's|README\.md$|index.md|' -e 's|\.md$|.html|' |
  while IFS= read -r page; do [ -e "$book/book/$page" ] || printf '%s\n' "$page"; done)
if [ -n "$missing" ]; then
  printf 'docs: docs/README.md does not lead to:\n%s\n' "$missing" >&2
  exit 1
fi
printf 'The book: %s\n' "$book/book/index.html"
if $serve; then
  exec python3 -m http.server 3000 --bind 127.0.0.1 --directory "$book/book"
fi
