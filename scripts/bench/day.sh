#!/bin/sh
# Measures a developer's day: the same work natively, through the loopback and through cachebro, by
# turns, on the history of a repository. For each kind of work it prints the median wall time in ms,
# and the processor time that all processes of the machine used in that time. So it needs a machine
# that does nothing else. npm ci needs the network and has its own script (packages.sh).
# Usage: scripts/bench/day.sh CACHEBRO LOOPBACK WORK REPOSITORY [RUNS]
set -eu
cb=$1 loopback=$2 work=$3 repo=$(realpath "$4") runs=${5:-5}
export XDG_STATE_HOME="$work/state" XDG_RUNTIME_DIR="$work/run" GIT_CONFIG_GLOBAL=/dev/null GOFLAGS=-buildvcs=false CGO_ENABLED=0
mkdir -p "$work/native" "$work/source" "$work/loopback" "$work/cachebro"
mkdir -p -m 700 "$work/state" "$work/run"
results="$work/results"
: >"$results"
server=
cleanup() {
	cd /
	"$cb" umount --force "$work/cachebro" >/dev/null 2>&1 || umount -l "$work/cachebro" 2>/dev/null || true
	umount "$work/loopback" 2>/dev/null || fusermount3 -u -z "$work/loopback" 2>/dev/null || true
	[ -z "$server" ] || wait "$server" || true
	for lock in "$work"/state/cachebro/*/lock; do
		pid=$(sed 's/[^0-9].*//' "$lock" 2>/dev/null || true)
		[ -z "$pid" ] || kill "$pid" 2>/dev/null || true
	done
	sleep 1
	rm -rf "$work/native" "$work/source" "$work/loopback" "$work/cachebro" "$work/state" "$work/run" "$work"/*.tar "$results"
}
trap cleanup EXIT
trap 'exit 1' INT TERM
"$loopback" -allow-other "$work/loopback" "$work/source" >/dev/null 2>&1 &
server=$!
"$cb" mount "$work/cachebro" >/dev/null
n=0
until grep -q " $work/loopback fuse" /proc/mounts; do
	n=$((n + 1))
	[ $n -lt 50 ] || exit 1
	sleep 0.1
done
busy() { awk '$1 == "cpu" { print ($2 + $3 + $4 + $7 + $8) * 10 }' /proc/stat; } # ms
measured() { # NAME COMMAND…: runs and measures a command in the present place
	name=$1
	shift
	sleep 0.5
	c=$(busy) t=$(date +%s%N)
	"$@" >/dev/null 2>&1
	t=$((($(date +%s%N) - t) / 1000000)) c=$(($(busy) - c))
	printf '%s|%s|%d|%d\n' "$name" "$place" "$t" "$c" >>"$results"
}
back() { # checks out 100 commits backwards and forwards, ten at a time
	for i in $(seq 0 10 100) $(seq 90 -10 0); do git -C r checkout -q "$tip~$i"; done
}
edits() { for f in $(git -C r ls-files '*.go' | head -200); do sed -i '1s/$/ /' "r/$f"; done; }
build() { (cd r && printf '\n' >>"$(git ls-files 'store/*.go' | head -1)" && go build -trimpath -o /dev/null ./cmd/cachebro); }
# This build fills Go's cache for all places.
(cd "$repo" && CGO_ENABLED=0 go build -trimpath -o /dev/null ./cmd/cachebro)
git -C "$repo" archive -o "$work/tree.tar" HEAD
tip=$(git -C "$repo" rev-parse HEAD)
for run in $(seq "$runs"); do
	for place in native loopback cachebro; do
		cd "$work/$place"
		measured "git clone" git clone -q "$repo" r
		measured "edit and go build" build
		git -C r checkout -q .
		measured "checkout of 100 commits back and forth, by tens" back
		git -C r checkout -q "$tip"
		git -C r status --porcelain >/dev/null
		measured "git status" git -C r status --porcelain
		measured "tar x" sh -c 'mkdir t && tar xf ../tree.tar -C t'
		measured "cp -r" cp -r t u
		measured "find" find . -newer /
		measured "rg" sh -c 'rg -c neverThere; :'
		measured "sed -i of 200 files" edits
		measured "rm -rf" rm -rf t u
		rm -rf r
	done
done
cd /
printf '%s, %s cores, Linux %s, %s files, %s runs, load %s; ms of wall time (processor time of all)\n' \
	"$(date +%F)" "$(nproc)" "$(uname -r)" "$(tar tf "$work/tree.tar" | grep -vc '/$')" "$runs" "$(cut -d' ' -f1 /proc/loadavg)"
awk -F'|' '
	function middle(s,  n, a, i, j, v) {
		n = split(s, a, " ")
		for (i = 2; i <= n; i++) { v = a[i] + 0; for (j = i - 1; j > 0 && a[j] + 0 > v; j--) a[j + 1] = a[j]; a[j + 1] = v }
		return a[int((n + 1) / 2)]
	}
	!($1 in seen) { seen[$1] = 1; names[++count] = $1 }
	{ wall[$1, $2] = wall[$1, $2] " " $3; cpu[$1, $2] = cpu[$1, $2] " " $4 }
	END {
		print "| | native | loopback | cachebro |\n|---|---|---|---|"
		for (i = 1; i <= count; i++) {
			n = names[i]; base = middle(wall[n, "native"])
			printf "| %s | %d (%d)", n, base, middle(cpu[n, "native"])
			for (p = 1; p <= 2; p++) {
				q = p == 1 ? "loopback" : "cachebro"; m = middle(wall[n, q])
				printf " | %d, %.1fx (%d)", m, m / (base ? base : 1), middle(cpu[n, q])
			}
			print " |"
		}
	}' "$results"
