#!/bin/sh
# Compares the two implementations of fusefs/sys, Linux's calls and the portable ones
# (doc/macos.md), on separate mounts by turns. With the binary of an earlier commit, there is a
# third column. The Linux implementation must cost no more than that earlier build.
# Usage: scripts/bench/seams.sh [RUNS] [TASK,TASK…] [EARLIER-BINARY]
set -eu
cd "$(dirname "$0")/../.."
export GOFLAGS="${GOFLAGS:-} -buildvcs=false"
runs=${1:-5}
only=${2:-}
earlier=${3:-}
tree=${CACHEBRO_BENCH_TREE:-$(go env GOROOT)/src}
work=$(mktemp -d "${CACHEBRO_BENCH_DIR:-${TMPDIR:-/tmp}}/cachebro-seams.XXXXXX")
export XDG_STATE_HOME="$work/state" XDG_RUNTIME_DIR="$work/run" GIT_CONFIG_GLOBAL=/dev/null
mkdir -m 700 "$work/run" "$work/state"
mkdir -p "$work/bin/earlier" "$work/bin/linux" "$work/bin/portable" # each binary must have its usual name, by which it recognises its own processes
kinds="linux portable"
CGO_ENABLED=0 go build -trimpath -o "$work/bin/linux/cachebro" ./cmd/cachebro
CGO_ENABLED=0 go build -trimpath -tags portable -o "$work/bin/portable/cachebro" ./cmd/cachebro
go build -o "$work/bin/bench" ./scripts/bench
if [ -n "$earlier" ]; then
	cp "$earlier" "$work/bin/earlier/cachebro"
	kinds="earlier $kinds"
fi
cleanup() {
	cd /
	for kind in $kinds; do
		"$work/bin/$kind/cachebro" umount "$work/$kind" >/dev/null 2>&1 || umount -l "$work/$kind" 2>/dev/null || true
	done
	for lock in "$work"/state/cachebro/*/lock; do
		pid=$(sed 's/[^0-9].*//' "$lock" 2>/dev/null || true)
		[ -z "$pid" ] || kill "$pid" 2>/dev/null || true
	done
	sleep 1
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 1' INT TERM
for place in native $kinds; do
	cp -r "$tree" "$work/$place"
	(cd "$work/$place" && git init -q . && git config gc.auto 0 && git add -A && git -c user.name=b -c user.email=b@example.org commit -qm all)
done
places="native=$work/native"
for kind in $kinds; do
	"$work/bin/$kind/cachebro" mount "$work/$kind" >/dev/null
	places="$places $kind=$work/$kind"
	n=0
	until "$work/bin/$kind/cachebro" status --json --dir "$work/$kind" | grep -q '"done":true'; do
		n=$((n + 1))
		[ $n -lt 1200 ] || { "$work/bin/$kind/cachebro" status --dir "$work/$kind" >&2; exit 1; }
		sleep 0.1
	done
done
printf '%s, %s cores, Linux %s; load before: %s\n' "$(date +%F)" "$(nproc)" "$(uname -r)" "$(cut -d' ' -f1 /proc/loadavg)"
printf '%s\n' "$only" | tr , '\n' | while read -r task; do
	# shellcheck disable=SC2086
	"$work/bin/bench" -n "$runs" -only "$task" $places
done
