#!/bin/bash
# Tests that 10,000 files deleted by rm -rf come back within 3 seconds. It also prints how long the rm
# took, with the mount and without it.
#
# usage: many.sh [CACHEBRO [FILES]]
set -u -o pipefail
cachebro=$(realpath "${1:-bin/cachebro}")
files=${2:-10000}
base=$(mktemp -d "${TMPDIR:-/tmp}/safety.XXXXXX")
export XDG_STATE_HOME=$base/state XDG_RUNTIME_DIR=$base/run HOME=$base/home NO_COLOR=1
unset CLAUDE_CODE_SESSION_ID CACHEBRO_SESSION CACHEBRO_DIR
mkdir -m 700 "$base/run"
mkdir -p "$base/home" "$base/state" "$base/project/tree"
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
cd "$base/project/tree"
awk -v n="$files" 'BEGIN { for (i = 0; i < n; i++) {
	dir = "d" int(i / 50)
	if (i % 50 == 0) system("mkdir " dir)
	name = dir "/f" i ".txt"
	for (l = 0; l < 20 + i % 60; l++) print "line " l " of file " i ", which has some words in it" >name
	close(name)
} }'
cd /
cp -a "$p/tree" "$base/copy"
t() { awk -v a="$1" -v b="$(date +%s.%N)" 'BEGIN { printf "%.2f", b - a }'; }
cp -a "$p/tree" "$base/native"
s=$(date +%s.%N); rm -rf "$base/native"; native=$(t "$s")
# ext4 creates files slowly where many files have just been deleted, and a busy machine is always
# slow. So measure a plain cp under the same conditions, for comparison with the 3 seconds.
s=$(date +%s.%N); cp -a "$p/tree" "$base/native"; copied=$(t "$s")
"$cachebro" mount "$p" >/dev/null || exit 1
for _ in $(seq 600); do
	"$cachebro" status --json --dir "$p" 2>/dev/null | grep -q '"done": *true' && break
	sleep 0.2
done
s=$(date +%s.%N); CLAUDE_CODE_SESSION_ID=rm-1 rm -rf "$p/tree"; removed=$(t "$s")
s=$(date +%s.%N); "$cachebro" undo --dir "$p" --session rm-1 --dry-run >/dev/null; planned=$(t "$s")
# cpu prints the CPU seconds of cachebro's processes. On a busy machine they tell more than wall
# time.
cpu() {
	for pid in $(grep -lzx "XDG_RUNTIME_DIR=$base/run" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3); do
		[ "$(readlink "/proc/$pid/exe" 2>/dev/null)" = "$cachebro" ] && awk -v name="$(tr '\0' ' ' <"/proc/$pid/cmdline" | cut -d' ' -f2)" '{ print name, ($14 + $15) / 100 }' "/proc/$pid/stat"
	done | sort
}
cpu >"$base/cpu.before"
s=$(date +%s.%N); TIMEFORMAT='client: user %U s, system %S s'; { time "$cachebro" undo --dir "$p" --session rm-1 --yes >"$base/out" 2>&1; } 2>"$base/cpu.client"; undone=$(t "$s")
cpu >"$base/cpu.after"
join "$base/cpu.before" "$base/cpu.after" | awk '{ printf "%s: %.2f CPU s  ", $1, $3 - $2 } END { print "" }'
cat "$base/cpu.client"
echo "$files files: rm -rf $removed s (native $native s), undo --dry-run $planned s, undo $undone s (native cp -a after rm -rf: $copied s; $(tail -1 "$base/out"))"
diff -r "$base/copy" "$p/tree" && echo "ok    diff -r is empty" || { echo "FAIL  diff -r"; exit 1; }
awk -v s="$undone" 'BEGIN { exit !(s <= 3) }' && echo "ok    within 3 s" || { echo "FAIL  $undone s, $(awk -v a="$undone" -v b="$copied" 'BEGIN { printf "%.1f", a / b }') times the native copy"; exit 1; }
