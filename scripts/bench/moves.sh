#!/bin/sh
# Measures what moves and links cost. In a tree of 400 files in 20 directories, it renames the
# topmost directory RENAMES times, and saves through a file that has LINKS names. For each part it
# prints a line: the wall time of the program, the daemon's processor time until everything is in
# the log and in the index, the number of versions, the processor time for each version, the bytes
# by which the history grew, how long `log -n 5` took in the meantime (three times), and how much
# was still in the spool then.
# Usage: scripts/bench/moves.sh CACHEBRO WORK [LINKS] [RENAMES…]; the defaults are 5000 and 100 1000
set -eu
cb=$1 work=$2 links=${3:-5000}
shift 2
[ $# = 0 ] || shift
[ $# -gt 0 ] || set -- 100 1000
now() { date +%s%N; }
ms() { echo $((($(now) - $1) / 1000000)); }
said() { "$cb" status --json --dir "$dir" 2>/dev/null | tr ',{' '\n\n' | sed -n "s/^\"$1\":\([0-9a-z]*\).*/\1/p" | head -1; }
cpu() { awk '{ print ($14 + $15) * 10 }' "/proc/$1/stat"; }
hwm() { awk '$1 == "VmHWM:" { print $2 }' "/proc/$1/status"; }
until_() { # LIMIT COMMAND…: waits until the command succeeds, at most LIMIT seconds
	end=$(($(date +%s) + $1))
	shift
	until "$@"; do
		[ "$(date +%s)" -lt $end ] || return 1
		sleep 1
	done
}
indexed() { # succeeds if the scan and the index are complete and nothing is left in the spool
	"$cb" status --json --dir "$dir" | tr -d ' \n' >"$work/status"
	grep -q '"done":true' "$work/status" && grep -q '"ready":true' "$work/status" && ! grep -q '"lag":[1-9]' "$work/status"
}
du_() { du -s --block-size=1 "$state" | cut -f1; }
part() { # NAME COMMAND…
	name=$1
	shift
	before=$(cpu "$daemon") v=$(said versions) size=$(du_)
	t=$(now)
	"$@" &
	who=$!
	asked=
	sleep 0.5
	for _ in 1 2 3; do
		q=$(now)
		"$cb" log -n 5 "$dir" >"$work/log" 2>"$work/log.err" || true
		asked="$asked $(ms "$q")"
	done
	spool=$(du -s --block-size=1 "$state/spool" | cut -f1)
	wait $who
	wall=$(ms "$t")
	until_ 900 indexed || echo "not indexed after 900 s" >&2
	[ "$(said daemon_pid)" = "$daemon" ] || echo "the daemon is another one" >&2
	used=$(($(cpu "$daemon") - before)) made=$(($(said versions) - v))
	printf '| %s | %d ms | %d ms | %d | %d µs | %d kB | %s ms | %d kB | %d kB |\n' "$name" "$wall" "$used" "$made" \
		$((used * 1000 / (made > 0 ? made : 1))) $((($(du_) - size) / 1024)) "${asked# }" $((spool / 1024)) "$(hwm "$daemon")"
}
dir="$work/moves"
mkdir -p "$dir/tree0"
awk -v dir="$dir/tree0" 'BEGIN {
	srand(1)
	for (i = 0; i < 400; i++) {
		if (i % 20 == 0) { d = dir "/d" i / 20; system("mkdir -p " d) }
		f = d "/f" i ".c"; text = "file number" i "\n"
		for (w = 0; w < 100; w++) text = text "word" int(rand() * rand() * 5000) (w % 10 == 9 ? "\n" : " ")
		printf "%s", text > f; close(f)
	}
}'
trap '"$cb" umount "$dir" >/dev/null 2>&1 || umount -l "$dir" 2>/dev/null || true' EXIT
"$cb" mount "$dir" >/dev/null
until_ 120 indexed
daemon=$(said daemon_pid)
state=$(dirname "$(readlink -f "$(ls -d "$XDG_STATE_HOME"/cachebro/moves-*/lock)")")
printf '| | who did it | daemon | versions | a version | history | log -n 5 | spool | daemon, most |\n|---|---|---|---|---|---|---|---|---|\n'
renames() { # COUNT: renames the tree COUNT times, to ten names in turn
	perl -e 'my ($d, $n) = @ARGV; for (my $i = 0; $i < $n; $i++) {
		rename(sprintf("%s/tree%d", $d, $i % 10), sprintf("%s/tree%d", $d, ($i + 1) % 10)) or die "rename $i: $!" }' "$dir" "$1"
}
linked() {
	perl -e 'my ($d, $n) = @ARGV; mkdir "$d/links"; open(F, ">", "$d/links/0"); print F "first\n"; close F;
		for (my $i = 1; $i < $n; $i++) { link("$d/links/0", "$d/links/$i") or die "link $i: $!" }' "$dir" "$links"
}
saves() {
	perl -e 'my ($d, $n) = @ARGV; for (my $i = 0; $i < $n; $i++) { open(F, ">>", "$d/links/0"); print F "save $i\n"; close F; select(undef, undef, undef, 0.05) }' "$dir" 5
}
for n in "$@"; do
	part "$n renames" renames "$n"
done
part "$links links" linked
part "5 saves" saves
