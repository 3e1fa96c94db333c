#!/bin/sh
# usage: pcre2_source.sh FOLDER
# Puts Debian's source archive of PCRE2 10.42 into FOLDER, from the package sources this machine is set up with. Uses
# lists and caches of its own, so that it needs no root and leaves apt's state alone.
set -eu
folder=$1
archive=pcre2_10.42.orig.tar.gz
sha256=c33b418e3b936ee3153de2c61cc638e7e4fe3156022a5c77d0711bcbb9d64f1f

is_right() { [ -f "$1" ] && echo "$sha256  $1" | sha256sum --check --status; }
is_right "$folder/$archive" && exit 0

fail() { echo "pcre2_source.sh: $1: put $archive of Debian 12 into $folder by hand" >&2; exit 1; }
command -v apt-get >/dev/null || fail "no apt-get here"

mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
# shellcheck disable=SC2016  # apt-get expands these
apt-get indextargets --format 'deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
  grep -E ' (bookworm|stable|oldstable) main$' | sort -u >"$work/sources.list"
[ -s "$work/sources.list" ] || fail "apt has no source of bookworm"

cd "$work"
apt_get() {
  apt-get -qq -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work/cache" -o APT::Sandbox::User=root "$@"
}
{ apt_get update && apt_get source --download-only pcre2=10.42-1; } >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "apt-get failed"; }
is_right "$work/$archive" || fail "what apt-get brought has another SHA-256"
mv "$work/$archive" "$folder/$archive"
