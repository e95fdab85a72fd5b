#!/bin/sh
# Makes the first table of doc/performance.md. It does the same work in several places: on the plain
# file system, on go-fuse's loopback example, on bindfs if it is installed, and on cachebro. The
# loopback captures nothing. It runs once for its owner alone and once open to other users, with the
# kernel checking permissions; cachebro is mounted in the second way if that is allowed. After the
# table, the script prints what many files cost (ONLY=scaling).
#
# Usage: scripts/bench.sh [RUNS] [ONLY]
# CACHEBRO_BENCH_TREE: a tree to copy instead of the Go source tree
# CACHEBRO_BENCH_DIR: a directory to work in instead of the one for temporary files
# CACHEBRO_BENCH_SCALE: numbers of files for the tables about growth, for example up to 200000
# ONLY is scaling or one of these parts:
#    day: a developer's day
#    growth: the costs of a project as it grows (runs only if requested)
#    cost: processor time of saves, searches, listings and an undo
#    saves: the costs of saves as a history grows
#    first-index: reads during the first index
#    moves: the costs of renaming a directory, and of a file with thousands of names
set -eu
cd "$(dirname "$0")/.."
export GOFLAGS="${GOFLAGS:-} -buildvcs=false"
runs=${1:-5}
only=${2:-}
tree=${CACHEBRO_BENCH_TREE:-$(go env GOROOT)/src}
work=$(mktemp -d "${CACHEBRO_BENCH_DIR:-${TMPDIR:-/tmp}}/cachebro-bench.XXXXXX")
for tool in git rg; do
	command -v $tool >/dev/null 2>&1 || { echo "bench needs $tool" >&2; exit 1; }
done
export XDG_STATE_HOME="$work/state" XDG_RUNTIME_DIR="$work/run" GIT_CONFIG_GLOBAL=/dev/null
mkdir -m 700 "$work/run" "$work/state"
cb="$work/bin/cachebro"
cleanup() {
	cd /
	"$cb" umount "$work/cachebro" >/dev/null 2>&1 || umount -l "$work/cachebro" 2>/dev/null || true
	for many in "$work"/many*; do
		[ ! -d "$many" ] || "$cb" umount "$many" >/dev/null 2>&1 || umount -l "$many" 2>/dev/null || true
	done
	umount "$work/bindfs" 2>/dev/null || true
	for loop in loopback loopback+others; do
		umount "$work/$loop" 2>/dev/null || fusermount3 -u -z "$work/$loop" 2>/dev/null || true
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
CGO_ENABLED=0 go build -trimpath -o "$cb" ./cmd/cachebro
go build -o "$work/bin/loopback" github.com/hanwen/go-fuse/v2/example/loopback
go build -o "$work/bin/bench" ./scripts/bench
go build -o "$work/bin/results" ./scripts/bench/results
go build -o "$work/bin/cost" ./scripts/bench/cost
go build -o "$work/bin/fsmonitor" ./scripts/bench/fsmonitor
scaling() {
	# shellcheck disable=SC2086
	scripts/bench/scaling.sh "$cb" "$work" ${CACHEBRO_BENCH_SCALE:-1000 20000}
}
if [ "$only" = seams ]; then # Linux's own file calls and the portable ones, each on a separate copy
	scripts/bench/seams.sh "$runs"
	exit 0
fi
if [ "$only" = moves ]; then # renames of a directory and links of a file
	mkdir "$work/moved"
	scripts/bench/moves.sh "$cb" "$work/moved"
	exit 0
fi
if [ "$only" = day ]; then # in a repository made for this purpose
	mkdir "$work/day"
	scripts/bench/day.sh "$cb" "$work/bin/loopback" "$work/day" . "$runs"
	exit 0
fi
if [ "$only" = growth ]; then
	# shellcheck disable=SC2086
	scripts/bench/growth.sh "$cb" "$work" ${CACHEBRO_BENCH_SCALE:-10000 100000}
	exit 0
fi
if [ "$only" = saves ]; then
	# shellcheck disable=SC2086
	scripts/bench/saves.sh "$cb" "$work" ${CACHEBRO_BENCH_SCALE:-20000 100000}
	exit 0
fi
if [ "$only" = scaling ]; then # this part needs no copies
	scaling
	exit 0
fi
if [ "$only" = cost ]; then
	"$work/bin/cost" -n "$runs" "$work" "$cb"
	exit 0
fi

# Each place has its own copy of the tree. The pages that work in one place leaves in the page cache
# or on the disk must not help or hinder another place.
bind=
! command -v bindfs >/dev/null 2>&1 || bind=below
for place in native source $bind cachebro; do
	cp -r "$tree" "$work/$place"
	(cd "$work/$place" && git init -q . && git config gc.auto 0 && git add -A && git -c user.name=b -c user.email=b@example.org commit -qm all && git gc -q)
done
places="native=$work/native"
for loop in loopback loopback+others; do
	mkdir "$work/$loop"
	other=
	[ $loop = loopback ] || other=-allow-other
	# shellcheck disable=SC2086
	"$work/bin/loopback" $other "$work/$loop" "$work/source" >"$work/$loop.log" 2>&1 &
	n=0
	until grep -q " $work/$loop fuse" /proc/mounts || [ $n -ge 50 ]; do
		n=$((n + 1))
		sleep 0.1
	done
	if grep -q " $work/$loop fuse" /proc/mounts; then
		places="$places $loop=$work/$loop"
	else # where root does not mount, other users need user_allow_other
		cat "$work/$loop.log" >&2
		[ $loop != loopback ] || exit 1
	fi
done
if [ -n "$bind" ]; then
	mkdir "$work/bindfs"
	bindfs "$work/below" "$work/bindfs"
	places="$places bindfs=$work/bindfs"
fi
"$cb" mount "$work/cachebro" >/dev/null
# The first scan and the first index are background work of half a minute that happens only once.
# The table is not about them, so wait.
n=0
until "$cb" status --json --dir "$work/cachebro" | grep -q '"done":true'; do
	n=$((n + 1))
	[ $n -lt 1200 ] || { "$cb" status --dir "$work/cachebro" >&2; exit 1; }
	sleep 0.1
done
"$cb" store reindex --dir "$work/cachebro" >/dev/null
printf '%s, %s cores, Linux %s, %s files, %s of them in cmd; load before: %s\n' "$(date +%F)" "$(nproc)" "$(uname -r)" \
	"$(find "$work/native" -type f -not -path '*/.git/*' | wc -l)" "$(find "$work/native/cmd" -type f | wc -l)" "$(cut -d' ' -f1 /proc/loadavg)"
# shellcheck disable=SC2086
"$work/bin/bench" -n "$runs" -only "$only" -cachebro "$cb" $places cachebro="$work/cachebro"
"$cb" status --dir "$work/cachebro" | sed -n 's/^\(store\|gaps\): */\1: /p'
case "$only" in "" | fio*)
	# shellcheck disable=SC2086
	if command -v fio >/dev/null 2>&1; then
		scripts/bench/fio.sh 3 $places "cachebro=$work/cachebro"
	else
		echo "fio: not installed, its lines are left out"
	fi
	;;
esac
case "$only" in "" | fsmonitor*) "$work/bin/fsmonitor" -n $((runs * 6)) -cachebro "$cb" "$work/native" "$work/cachebro" ;; esac
case "$only" in "" | search*) scripts/bench/search.sh ;; esac
case "$only" in "" | texts*) scripts/bench/texts.sh ;; esac
case "$only" in "" | results*) "$work/bin/results" -cachebro "$cb" ;; esac
case "$only" in "" | hook*) go run ./scripts/hooktime -cachebro "$cb" || echo "(above the targets)" ;; esac

case scaling in *"$only"*) scaling ;; esac
case "$only" in "" | first-index) # the reads of one client, then of ten clients beside a writer
	for clients in 1 10; do
		cp -r "$tree" "$work/many-first$clients"
		"$work/bin/bench" -cachebro "$cb" -first-index $clients "$work/many-first$clients"
		"$cb" umount "$work/many-first$clients" >/dev/null
	done
	;;
esac
if [ -z "$only" ]; then
	"$work/bin/cost" -n "$runs" "$work" "$cb"
	mkdir "$work/day"
	scripts/bench/day.sh "$cb" "$work/bin/loopback" "$work/day" . "$runs"
fi
