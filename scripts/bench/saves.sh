#!/bin/sh
# Measures what saves cost as a history grows. One writer saves 50 files of 2 kB in turn without a
# pause, and changes a line of each. For each given number of saves it prints a line: the writer's
# time for one save since the last line, the processor time of daemon and mountd for one save, how
# many versions store and index were behind, the size of the spool, and the daemon's resident
# memory. At the end it prints how long store and index took to catch up after the last save.
# Usage: scripts/bench/saves.sh CACHEBRO WORK NUMBER…
set -eu
cb=$1 work=$2
shift 2
dir="$work/saves"
mkdir -p "$dir"
ms() { echo $((($(date +%s%N) - $1) / 1000000)); }
cpu() { awk '{ print ($14 + $15) * 10000 }' "/proc/$1/stat" 2>/dev/null || echo 0; } # µs
memory() { awk '$1 == "VmRSS:" { print $2 }' "/proc/$1/status" 2>/dev/null || echo 0; }
json() { "$cb" status --json --dir "$dir" 2>/dev/null | tr ',{' '\n\n'; }
first() { echo "$state" | sed -n "s/^\"$1\":\([0-9]*\).*/\1/p" | sed -n "${2:-1}p"; }
caught() { state=$(json) && echo "$state" | grep -q '^"lag":0' && ! echo "$state" | grep -q '^"lag":[1-9]'; }
base=$(awk 'BEGIN { for (l = 0; l < 40; l++) printf "func line%d(x int) int { return x * %d }\n", l, l }')
"$cb" mount "$dir" >/dev/null
trap '"$cb" umount "$dir" >/dev/null' EXIT
until json | grep -q '^"done":true'; do sleep 0.3; done
state=$(json)
daemon=$(first daemon_pid) mountd=$(first mountd_pid)
printf '| saves | a save | daemon, a save | mountd | behind: store | index | spool | daemon |\n|---|---|---|---|---|---|---|---|\n'
i=0 d=$(cpu "$daemon") m=$(cpu "$mountd")
for n in "$@"; do
	t=$(date +%s%N) from=$i
	while [ $i -lt "$n" ]; do
		printf '%s\nvar edit = %d\n' "$base" $i >"$dir/f$((i % 50)).go"
		i=$((i + 1))
	done
	took=$(ms "$t") state=$(json)
	[ "$(first daemon_pid)" = "$daemon" ] || echo "another daemon"
	D=$(cpu "$daemon") M=$(cpu "$mountd") of=$((n - from))
	printf '| %d | %d µs | %d µs | %d µs | %s | %s | %d kB | %d MB |\n' "$n" $((took * 1000 / of)) $(((D - d) / of)) $(((M - m) / of)) \
		"$(first lag 1)" "$(first lag 2)" $(($(first spooled_bytes) / 1024)) $(($(memory "$daemon") / 1024))
	d=$D m=$M
done
t=$(date +%s%N)
until caught; do
	[ "$(ms "$t")" -lt 300000 ] || break
	sleep 0.3
done
printf 'all caught up %d ms later, which took the daemon %d ms\n' "$(ms "$t")" $((($(cpu "$daemon") - d) / 1000))
