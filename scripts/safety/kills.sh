#!/bin/bash
# Kills undo, prune and garbage collection with kill -9 again and again. Nothing may be lost, and
# fsck must find no fault after any round. A third of the undos are finished by the next undo, and a
# third are reversed with --rollback. In the last third, the daemon and mountd are killed too, and
# the next mount finishes the undo.
#
# usage: kills.sh [CACHEBRO [ROUNDS [FILES]]]; prints its counts.
set -u -o pipefail
cachebro=$(realpath "${1:-bin/cachebro}")
rounds=${2:-50}
files=${3:-300}
base=$(mktemp -d /tmp/safety.XXXXXX)
export XDG_STATE_HOME=$base/state XDG_RUNTIME_DIR=$base/run HOME=$base/home NO_COLOR=1
# Old versions expire soon, so that prune and collection have work to do.
export CACHEBRO_KEEP=2 CACHEBRO_KEEP_AGE=1s
unset CLAUDE_CODE_SESSION_ID CACHEBRO_SESSION CACHEBRO_DIR
mkdir -m 700 "$base/run"
mkdir -p "$base/home" "$base/state" "$base/project"
p=$base/project
bad=0
cutUndo=0 whole=0 resumed=0 rolled=0 remounts=0 cutPrune=0 cutGC=0

ours() { # ours NAME: prints the pids of this project's processes with this sub-command
	local pid
	for pid in $(grep -lzx "XDG_RUNTIME_DIR=$base/run" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3); do
		[ "$(readlink "/proc/$pid/exe" 2>/dev/null)" = "$cachebro" ] && [ "$(tr '\0' '\n' 2>/dev/null <"/proc/$pid/cmdline" | sed -n 2p)" = "$1" ] && echo "$pid"
	done
}
finish() {
	cd /
	"$cachebro" umount "$p" >/dev/null 2>&1 || umount -l "$p" 2>/dev/null
	for name in supervise mountd daemon; do for pid in $(ours $name); do kill "$pid" 2>/dev/null; done; done
	sleep 0.3
	if [ -n "${KEEP:-}" ]; then echo "kept: $base"; else rm -rf "$base"; fi
}
trap finish EXIT
facts() {
	(cd "$p" && find . -printf '%y %m %p %l\n' | LC_ALL=C sort
	cd "$p" && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum)
}
fail() { echo "FAIL  round $round: $*"; bad=$((bad + 1)); }
same() { cmp -s "$2" "$3" || { fail "$1"; diff "$2" "$3" | head -10; }; }
pause() { sleep "$(awk -v r=$RANDOM -v max="$1" 'BEGIN { printf "%.4f", r / 32768 * max }')"; }
ready() {
	for _ in $(seq 300); do
		"$cachebro" status --json --dir "$p" 2>/dev/null | grep -q '"done": *true' && return
		sleep 0.1
	done
	fail "the mount is not ready"
}

for i in $(seq "$files"); do
	mkdir -p "$p/d$((i % 20))"
	for l in $(seq 40); do echo "line $l of $i"; done >"$p/d$((i % 20))/f$i"
done
"$cachebro" mount "$p" >/dev/null || exit 1
ready
for round in $(seq "$rounds"); do
	facts >"$base/before"
	# The agent changes contents, removes directories, renames, changes modes, and makes files.
	CLAUDE_CODE_SESSION_ID=round-$round bash -ec "cd '$p'
		sed -i 's/line 7 .*/line seven in round $round/' d[0-4]/*
		rm -rf d5 d6 d7
		mv d8 moved
		chmod 700 d9/*
		mkdir new; for i in 1 2 3 4 5; do echo $round >new/n\$i; done
		ln -s d9 link"
	facts >"$base/after"
	start=$(date +%s.%N)
	"$cachebro" undo --dir "$p" --session "round-$round" --yes >"$base/undo.out" 2>&1 &
	pid=$!
	# In most rounds, kill the undo only after the first file has come back.
	if [ $((RANDOM % 5)) != 0 ]; then
		for _ in $(seq 2000); do [ -e "$p/d5" ] || [ ! -e "$p/new/n5" ] || ! kill -0 $pid 2>/dev/null && break; sleep 0.005; done
		pause 0.15
	else
		pause 0.4
	fi
	if kill -9 $pid 2>/dev/null; then cutUndo=$((cutUndo + 1)); else whole=$((whole + 1)); fi
	wait $pid 2>/dev/null
	case $((round % 3)) in
	0)
		for name in daemon mountd; do for q in $(ours $name); do kill -9 "$q"; done; done
		# Another mountd takes over. Mounting the mounted project finishes the undo.
		"$cachebro" mount "$p" >"$base/mount.out" 2>&1 || fail "mount: $(cat "$base/mount.out")"
		remounts=$((remounts + 1))
		ready
		grep -q 'completed an operation that was interrupted' "$base/mount.out" 2>/dev/null && resumed=$((resumed + 1))
		"$cachebro" undo --dir "$p" --session "round-$round" --yes >"$base/again.out" 2>&1
		grep -q 'completed an operation that was interrupted' "$base/again.out" && resumed=$((resumed + 1))
		;;
	1)
		"$cachebro" undo --dir "$p" --session "round-$round" --yes >"$base/again.out" 2>&1
		grep -q 'completed an operation that was interrupted' "$base/again.out" && resumed=$((resumed + 1))
		;;
	2)
		if ! grep -q '^done' "$base/undo.out"; then
			"$cachebro" undo --dir "$p" --rollback --yes >"$base/back.out" 2>&1 || { fail "rollback"; tail -3 "$base/back.out"; }
			grep -q '^done' "$base/back.out" && rolled=$((rolled + 1))
			facts >"$base/now"; same "rolled back is not as the agent left it" "$base/after" "$base/now"
		fi
		"$cachebro" undo --dir "$p" --session "round-$round" --yes >"$base/again.out" 2>&1
		;;
	esac
	facts >"$base/now"; same "the tree is not what it was" "$base/before" "$base/now"
	grep -E 'conflict|lost|not done' "$base/again.out" | head -3
	find "$p" -name '.cachebro-*' | grep . && fail "left behind"

	# The daemon is killed in the middle of prune or collection.
	if [ $((round % 2)) = 0 ]; then
		"$cachebro" store prune 2 --dir "$p" >"$base/prune.out" 2>&1 &
		cutPrune=$((cutPrune + 1))
	else
		"$cachebro" store prune --limits --dir "$p" >"$base/prune.out" 2>&1 &
		cutGC=$((cutGC + 1))
	fi
	pid=$!
	pause 0.3
	for q in $(ours daemon); do kill -9 "$q"; done
	wait $pid 2>/dev/null
	"$cachebro" store fsck --dir "$p" >"$base/fsck.out" 2>&1 || { fail "fsck"; tail -5 "$base/fsck.out"; }
	ready
done
# The present contents of all files must be in the store, byte for byte.
lost=0
while IFS= read -r f; do
	"$cachebro" show --dir "$p" "$p/$f" 2>/dev/null | cmp -s - "$p/$f" || lost=$((lost + 1))
done < <(cd "$p" && find . -type f -printf '%P\n' | awk 'NR % 7 == 0')
echo "$rounds rounds: undo killed $cutUndo, ended before $whole, resumed $resumed, rolled back $rolled, with daemon and mountd $remounts; prune killed $cutPrune, collection killed $cutGC; failures $bad; newest contents not kept $lost"
[ $bad = 0 ] && [ $lost = 0 ]
