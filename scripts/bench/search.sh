#!/bin/sh
# Makes the tables of searches. It compares the answers and times of the search with those of rg and
# git grep on the same files. It needs no more rights than a mount does.
#
# Usage: scripts/bench/search.sh [EVERY [MOST]]
# EVERY: ask only every EVERY-th of the 400 queries (default 2)
# MOST: make trees of up to MOST files (default 10000)
# CACHEBRO_BENCH_TREE: a tree to copy instead of the Go source tree
# CACHEBRO_BENCH_DIR: a directory to work in instead of the one for temporary files
set -eu
cd "$(dirname "$0")/../.."
export GOFLAGS="${GOFLAGS:-} -buildvcs=false"
tree=${CACHEBRO_BENCH_TREE:-$(go env GOROOT)/src}
work=$(mktemp -d "${CACHEBRO_BENCH_DIR:-${TMPDIR:-/tmp}}/cachebro-search.XXXXXX")
for tool in git rg; do
	command -v $tool >/dev/null 2>&1 || { echo "the search bench needs $tool" >&2; exit 1; }
done
export XDG_STATE_HOME="$work/state" XDG_RUNTIME_DIR="$work/run" GIT_CONFIG_GLOBAL=/dev/null
mkdir -m 700 "$work/run" "$work/state" "$work/made"
cleanup() {
	cd /
	"$work/bin/cachebro" umount "$work/mounted" >/dev/null 2>&1 || umount -l "$work/mounted" 2>/dev/null || true
	for lock in "$work"/state/cachebro/*/lock; do
		pid=$(sed 's/[^0-9].*//' "$lock" 2>/dev/null || true)
		[ -z "$pid" ] || kill "$pid" 2>/dev/null || true
	done
	sleep 1
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 1' INT TERM
CGO_ENABLED=0 go build -trimpath -o "$work/bin/cachebro" ./cmd/cachebro
go build -o "$work/bin/search" ./scripts/bench/search
for place in native mounted; do
	cp -r "$tree" "$work/$place"
	(cd "$work/$place" && git init -q . && git config gc.auto 0 && git add -A && git -c user.name=b -c user.email=b@example.org commit -qm all && git gc -q)
done
"$work/bin/search" -cachebro "$work/bin/cachebro" -native "$work/native" -mounted "$work/mounted" -work "$work/made" -every "${1:-2}" -most "${2:-10000}"
