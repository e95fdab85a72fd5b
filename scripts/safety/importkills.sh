#!/bin/bash
# Kills import with kill -9 again and again. After each kill, fsck must find no fault, and the same
# import must succeed.
#
# usage: importkills.sh [CACHEBRO [ROUNDS [FILES]]]; prints its counts.
set -u -o pipefail
cachebro=$(realpath "${1:-bin/cachebro}")
rounds=${2:-30}
files=${3:-400}
base=$(mktemp -d /tmp/safety.XXXXXX)
export XDG_STATE_HOME=$base/state XDG_RUNTIME_DIR=$base/run HOME=$base/home NO_COLOR=1
unset CLAUDE_CODE_SESSION_ID CACHEBRO_SESSION CACHEBRO_DIR
mkdir -m 700 "$base/run"
mkdir -p "$base/home" "$base/state" "$base/from"
bad=0 killed=0 ended=0
finish() {
	cd /
	"$cachebro" umount "$base/from" >/dev/null 2>&1
	stop "$base/run"
	rm -rf "$base"
}
trap finish EXIT
fail() { echo "FAIL  round $round: $*"; bad=$((bad + 1)); }
round=0
history() { # history DIR: prints the number of versions in its history
	"$cachebro" store export --dir "$1" --json "$base/count" 2>/dev/null | grep -o '"versions": *[0-9]*' | grep -o '[0-9]*'
	rm -f "$base/count"
}
stop() { # stop RUN: ends the daemons that use this runtime directory
	local pid
	for pid in $(grep -lzx "XDG_RUNTIME_DIR=$1" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3); do
		[ "$pid" != $$ ] && [ "$(readlink "/proc/$pid/exe" 2>/dev/null)" = "$cachebro" ] && kill "$pid" 2>/dev/null
	done
	sleep 0.3
}
record() { # record DIR FILES WORD: makes a history in which each file has three versions
	local i
	for i in $(seq "$2"); do for l in $(seq 30); do echo "line $l of $i, $3"; done >"$1/f$i"; done
	"$cachebro" mount "$1" >/dev/null || exit 1
	for _ in $(seq 300); do "$cachebro" status --json --dir "$1" 2>/dev/null | grep -q '"done": *true' && break; sleep 0.1; done
	sed -i 's/line 7/line seven/' "$1"/*
	sed -i 's/line 8/line eight/' "$1"/*
	"$cachebro" umount "$1" >/dev/null || exit 1
}
record "$base/from" "$files" exported
"$cachebro" store export --dir "$base/from" "$base/history" >/dev/null || exit 1
all=$(history "$base/from")
s=$(date +%s%N)
mkdir "$base/whole" && "$cachebro" store import --dir "$base/whole" "$base/history" >/dev/null || exit 1
took=$((($(date +%s%N) - s) / 1000000))
[ "$(history "$base/whole")" = "$all" ] || fail "imported $(history "$base/whole") of $all versions"
for round in $(seq "$rounds"); do
	dir=$base/new$round
	mkdir -p "$dir"
	"$cachebro" store import --dir "$dir" "$base/history" >"$base/out" 2>&1 &
	pid=$!
	sleep "$(awk -v r=$RANDOM -v most="$took" 'BEGIN { printf "%.3f", r / 32768 * most * 1.3 / 1000 }')"
	if kill -9 $pid 2>/dev/null; then killed=$((killed + 1)); else ended=$((ended + 1)); fi
	wait $pid 2>/dev/null
	"$cachebro" store fsck --dir "$dir" >"$base/fsck" 2>&1 || grep -q 'has no history' "$base/fsck" || fail "fsck after the kill: $(tail -2 "$base/fsck")"
	"$cachebro" store import --dir "$dir" "$base/history" >"$base/out" 2>&1 || grep -q 'history of its own' "$base/out" || fail "import again: $(tail -2 "$base/out")"
	[ "$(history "$dir")" = "$all" ] || fail "$(history "$dir") of $all versions"
	"$cachebro" store fsck --dir "$dir" >"$base/fsck" 2>&1 || fail "fsck: $(tail -2 "$base/fsck")"
done
echo "$rounds rounds: import of $all versions ($took ms) killed $killed, ended before $ended; failures $bad"
[ $bad = 0 ]
