#!/bin/bash
# Tests the cap on a store's size on a busy mount that reaches it. Writers work while the store is
# garbage-collected and packed, and its daemon is killed with kill -9 in the middle of that, again
# and again. The last contents of the files must be kept, and fsck must find no fault after any
# round.
#
# usage: cap.sh [CACHEBRO [ROUNDS [CAP]]]; prints its counts, the sizes of the store, and the cap.
set -u -o pipefail
cachebro=$(realpath "${1:-bin/cachebro}")
rounds=${2:-20}
base=$(mktemp -d /tmp/safety.XXXXXX)
export XDG_STATE_HOME=$base/state XDG_RUNTIME_DIR=$base/run HOME=$base/home NO_COLOR=1
export CACHEBRO_CAP=${3:-24MiB} CACHEBRO_KEEP=2 CACHEBRO_KEEP_AGE=1s
unset CLAUDE_CODE_SESSION_ID CACHEBRO_SESSION CACHEBRO_DIR
mkdir -m 700 "$base/run"
mkdir -p "$base/home" "$base/state" "$base/project"
p=$base/project
bad=0 killed=0 most=0 worst=0

field() { timeout 60 "$cachebro" status --json --dir "$p" 2>/dev/null | tr ',{' '\n\n' | awk -F: -v f="\"$1\"" '$1 == f { print $2 + 0; exit }'; }
finish() {
	for w in ${writers:-}; do kill "$w" 2>/dev/null; done
	wait 2>/dev/null
	cd /
	pid=$(field daemon_pid)
	timeout 60 "$cachebro" umount "$p" >/dev/null 2>&1 || umount -l "$p" 2>/dev/null
	[ -n "$pid" ] && kill "$pid" 2>/dev/null
	sleep 0.5
	rm -rf "$base"
}
trap finish EXIT
fail() { echo "FAIL  round $round: $*"; bad=$((bad + 1)); }
taken() { find "$XDG_STATE_HOME"/cachebro/*/store -type f ! -name ballast -printf '%b\n' 2>/dev/null | awk '{ n += $1 * 512 } END { print n + 0 }'; }

# writer N: writes a text file that changes here and there, a file of random bytes, and a file that
# grows.
writer() {
	local i=0
	while :; do
		i=$((i + 1))
		seq $((i % 50 + 1)) 20000 | sed "s/7\$/7 of $1, round $i/" >"$p/text$1"
		head -c 150000 /dev/urandom >"$p/noise$1"
		echo "line $i of $1" >>"$p/log$1"
		sleep 0.1
	done
}

"$cachebro" mount "$p" >/dev/null || exit 1
for n in 1 2 3; do writer "$n" & writers="${writers:-} $!"; done
for round in $(seq "$rounds"); do
	sleep 2
	now=$(taken)
	[ "$now" -gt "$most" ] && most=$now
	timeout 300 "$cachebro" store prune --limits --dir "$p" >"$base/out" 2>&1 &
	job=$!
	if [ $((round % 3)) != 0 ]; then
		pid=$(field daemon_pid)
		sleep "0.$((RANDOM % 5))"
		[ -n "$pid" ] && kill -9 "$pid" 2>/dev/null && killed=$((killed + 1))
		wait $job
	else
		wait $job || fail "collect: $(cat "$base/out")"
		now=$(taken)
		[ "$now" -gt "$worst" ] && worst=$now
	fi
	timeout 300 "$cachebro" store fsck --dir "$p" >"$base/out" 2>&1 || { fail fsck; tail -5 "$base/out"; }
done
for w in $writers; do kill "$w"; done
wait 2>/dev/null
writers=''
timeout 300 "$cachebro" store prune --limits --dir "$p" >"$base/out" 2>&1 || fail "the last collection"
lost=0
for f in "$p"/*; do
	ok=0
	for _ in $(seq 50); do
		timeout 60 "$cachebro" show "$f" 2>/dev/null | cmp -s - "$f" && { ok=1; break; }
		sleep 0.2
	done
	[ $ok = 1 ] || lost=$((lost + 1))
done
timeout 300 "$cachebro" store fsck --dir "$p" >"$base/out" 2>&1 || { fail "the last fsck"; tail -5 "$base/out"; }
echo "$rounds rounds, daemon killed $killed times in collection; $(field versions) versions; store at most $((most >> 20)) MiB before, $((worst >> 20)) MiB after a collection, $(($(taken) >> 20)) MiB at the end, cap $CACHEBRO_CAP; failures $bad, newest contents not kept $lost"
[ $bad = 0 ] && [ $lost = 0 ]
