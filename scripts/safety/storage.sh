#!/bin/bash
# A real history checked out commit by commit through the mount: the store takes
# no more than git's own packs for the same contents, du adds up to what lies on
# disk, and fsck is clean.
#
# usage: storage.sh [CACHEBRO [REPOSITORY [COMMITS]]]
set -u -o pipefail
cachebro=$(realpath "${1:-bin/cachebro}")
repository=$(realpath "${2:-.}")
commits=${3:-1000}
base=$(mktemp -d /tmp/safety.XXXXXX)
export XDG_STATE_HOME=$base/state XDG_RUNTIME_DIR=$base/run HOME=$base/home NO_COLOR=1
unset CLAUDE_CODE_SESSION_ID CACHEBRO_SESSION CACHEBRO_DIR
mkdir -m 700 "$base/run"
mkdir -p "$base/home" "$base/state"
p=$base/project
finish() {
	cd /
	"$cachebro" umount "$p" >/dev/null 2>&1 || umount -l "$p" 2>/dev/null
	for pid in $(grep -lzx "XDG_RUNTIME_DIR=$base/run" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3); do
		[ "$pid" != $$ ] && [ "$(readlink "/proc/$pid/exe" 2>/dev/null)" = "$cachebro" ] && kill "$pid" 2>/dev/null
	done
	sleep 0.3
	rm -rf "$base"
}
trap finish EXIT
git -c safe.directory='*' clone -q --no-local "$repository" "$p" || exit 1
git -C "$p" rev-list --reverse --topo-order HEAD | head -n "$commits" >"$base/commits"
git -C "$p" checkout -q "$(head -1 "$base/commits")"
# What git needs for these commits' contents alone: blobs, not trees.
while read -r c; do git -C "$p" ls-tree -r "$c"; done <"$base/commits" | awk '$2 == "blob" { print $3 " " $4 }' | LC_ALL=C sort -u -k1,1 >"$base/blobs"
packed=$(git -C "$p" pack-objects --all-progress-implied -q --window=50 --depth=50 --stdout <"$base/blobs" 2>/dev/null | wc -c)
plain=$(cut -d' ' -f1 "$base/blobs" | git -C "$p" cat-file --batch-check='%(objectsize)' | awk '{ n += $1 } END { print n }')
"$cachebro" mount "$p" >/dev/null || exit 1
start=$(date +%s)
n=0
while read -r c; do git -C "$p" -c advice.detachedHead=false checkout -q "$c" || exit 1; n=$((n + 1)); done <"$base/commits"
echo "$n commits, $(wc -l <"$base/blobs") contents, $plain bytes, checked out in $(($(date +%s) - start)) s"
"$cachebro" fsck --dir "$p" >"$base/fsck" 2>&1 && echo "ok    fsck: $(head -1 "$base/fsck")" || { echo "FAIL  fsck"; cat "$base/fsck"; }
"$cachebro" du --json "$p" >"$base/du.json"
store=$(echo "$base"/state/cachebro/*/store)
real=$(find "$store" -type f ! -name '*ballast*' -printf '%b\n' | awk '{ n += $1 * 512 } END { print n }')
echo "directory $real bytes on disk without the ballast; git packs the same contents in $packed"
"$cachebro" du "$p" | head -20
cut -c1-600 "$base/du.json"
