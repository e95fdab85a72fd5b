#!/bin/bash
# Ends the daemon again and again while four writers save files. Every third time the daemon is
# killed. Otherwise it is asked to end, and closes its store as it does when it is idle. mountd
# starts a new daemon for the next record. Afterwards, every content that a writer closed must be
# in the log, in the right order, and fsck must find no fault.
#
# usage: guest.sh [CACHEBRO [ROUNDS]]      (bin/cachebro, 200)
set -u -o pipefail
cachebro=$(realpath "${1:-bin/cachebro}")
rounds=${2:-200}
base=$(mktemp -d "${TMPDIR:-/tmp}/safety.XXXXXX")
export XDG_STATE_HOME=$base/state XDG_RUNTIME_DIR=$base/run HOME=$base/home NO_COLOR=1
unset CLAUDE_CODE_SESSION_ID CACHEBRO_SESSION CACHEBRO_DIR
mkdir -m 700 "$base/run"
mkdir -p "$base/home" "$base/state" "$base/project"
p=$base/project
writers=()
daemon() { grep -o '^[0-9]*' "$base"/state/cachebro/*/lock 2>/dev/null; }
finish() {
	cd /
	touch "$base/stop"
	[ ${#writers[@]} -eq 0 ] || kill "${writers[@]}" 2>/dev/null
	"$cachebro" umount "$p" >/dev/null 2>&1 || umount -l "$p" 2>/dev/null
	pid=$(daemon) && kill "$pid" 2>/dev/null
	sleep 0.3
	rm -rf "$base"
}
trap finish EXIT
trap 'exit 1' INT TERM
"$cachebro" mount "$p" >/dev/null || exit 1
for w in 1 2 3 4; do
	(
		n=0
		while [ ! -e "$base/stop" ]; do
			n=$((n + 1))
			echo "save $n of writer $w" >"$p/w$w.txt"
			echo "$n" >"$base/saved$w"
			sleep 0.01
		done
	) &
	writers+=($!)
done
gone=0
for round in $(seq "$rounds"); do
	for _ in $(seq 600); do # waits for a daemon that serves
		pid=$(daemon) && [ -d "/proc/$pid" ] && ls "$base"/run/cachebro/*.sock >/dev/null 2>&1 && break
		sleep 0.05
	done
	sleep "0.$((RANDOM % 4))$((RANDOM % 10))"
	signal=TERM
	[ $((round % 3)) -ne 0 ] || signal=KILL
	kill "-$signal" "$pid" 2>/dev/null && gone=$((gone + 1))
	for _ in $(seq 600); do
		[ -d "/proc/$pid" ] || break
		sleep 0.02
	done
done
touch "$base/stop"
wait "${writers[@]}"
bad=0 all=0
for w in 1 2 3 4; do
	saved=$(cat "$base/saved$w")
	"$cachebro" log --json "$p/w$w.txt" >"$base/log$w" || bad=$((bad + 1))
	# The hashes of the written contents must be among the hashes in the log, in the same order.
	for n in $(seq "$saved"); do echo "save $n of writer $w" | sha256sum | cut -d' ' -f1; done >"$base/want$w"
	tac "$base/log$w" | grep -o '"hash":"[0-9a-f]*"' | cut -d'"' -f4 | uniq >"$base/got$w"
	if [ "$(head -c 12 "$base/got$w" | wc -c)" -eq 12 ]; then
		size=$(head -1 "$base/got$w" | tr -d '\n' | wc -c)
		cut -c1-"$size" "$base/want$w" | diff - "$base/got$w" >"$base/diff$w" || { bad=$((bad + 1)); head -5 "$base/diff$w"; }
	else
		echo "no hashes in the log"
		bad=$((bad + 1))
	fi
	all=$((all + saved))
done
"$cachebro" store fsck --dir "$p" >"$base/fsck" 2>&1 || { bad=$((bad + 1)); cat "$base/fsck"; }
echo "$rounds rounds, the daemon ended $gone times, $all saves: $bad wrong; $(tail -1 "$base/fsck")"
[ "$bad" -eq 0 ]
