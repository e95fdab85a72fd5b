#!/bin/sh
# Measures what a project costs as it grows. It uses trees of small text files (of a hundred words
# each) and prints a line for each size. Times are wall times. cpu is the daemon's processor time
# until its index was complete. Memory is resident memory in kB: of mountd after each file was
# looked up once, and of the daemon at its peak and 30 s later. The last column is the cost of one
# file.
# Usage: scripts/bench/growth.sh CACHEBRO WORK NUMBER…
set -eu
cb=$1 work=$2
shift 2
ms() { echo $((($(date +%s%N) - $1) / 1000000)); }
took() { # COMMAND…: prints its milliseconds, as the median of three runs
	for _ in 1 2 3; do
		t=$(date +%s%N)
		"$@" >/dev/null || [ $? = 1 ]
		ms "$t"
	done | sort -n | sed -n 2p
}
said() { "$cb" status --json --dir "$dir" 2>/dev/null | tr ',{' '\n\n' | sed -n "s/^\"$1\":\([0-9a-z]*\).*/\1/p" | head -1; }
memory() { awk -v f="$2:" '$1 == f { print $2 }' "/proc/$1/status" 2>/dev/null || echo 0; }
cpu() { awk '{ print ($14 + $15) * 10 }' "/proc/$1/stat"; }
until_() { # LIMIT COMMAND…: waits until the command succeeds, at most LIMIT seconds
	end=$(($(date +%s) + $1))
	shift
	until "$@"; do
		[ "$(date +%s)" -lt $end ] || return 1
		sleep 0.3
	done
}
scanned() { "$cb" status --json --dir "$dir" 2>/dev/null | grep -q '"done":true'; }
indexed() { "$cb" status --json --dir "$dir" | grep -q '"lag":0,"ready":true'; }
printf '| files | mount | scan | index | cpu | mountd | daemon, most | later | search | log -n 20 | status | umount | on disk | cpu, disk, mountd a file |\n'
printf '|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n'
for n in "$@"; do
	dir="$work/grown$n"
	mkdir -p "$dir"
	awk -v n="$n" -v dir="$dir" 'BEGIN {
		srand(1)
		for (i = 0; i < n; i++) {
			if (i % 500 == 0) { d = dir "/d" i / 500; system("mkdir -p " d) }
			f = d "/f" i ".txt"; text = "file number" i "\n"
			for (w = 0; w < 100; w++) text = text "word" int(rand() * rand() * 5000) (w % 10 == 9 ? "\n" : " ")
			printf "%s", text > f; close(f)
		}
	}'
	t=$(date +%s%N)
	"$cb" mount "$dir" >/dev/null
	mount=$(ms "$t")
	until_ $((60 + n / 500)) scanned
	scan=$(ms "$t")
	until_ $((120 + n / 100)) indexed
	index=$(ms "$t")
	daemon=$(said daemon_pid) mountd=$(said mountd_pid)
	used=$(cpu "$daemon")
	find "$dir" -type f -size +100000k
	sleep 3
	held=$(memory "$mountd" VmRSS)
	search=$(took "$cb" search "number$((n / 2))" "$dir")
	log=$(took "$cb" log -n 20 "$dir")
	status=$(took "$cb" status --dir "$dir")
	sleep 30
	later=$(memory "$daemon" VmRSS)
	most=$(memory "$daemon" VmHWM)
	disk=$("$cb" status --json --dir "$dir" | tr ',{' '\n\n' | awk -F: '/^"disk_bytes"/ { s += $2 } END { print int(s / 1024) }')
	t=$(date +%s%N)
	"$cb" umount "$dir" >/dev/null
	end=$(ms "$t")
	printf '| %d | %d ms | %d ms | %d ms | %d ms | %d | %d | %d | %d ms | %d ms | %d ms | %d ms | %d kB | %d µs, %d B, %d B |\n' \
		"$n" "$mount" "$scan" "$index" "$used" "$held" "$most" "$later" "$search" "$log" "$status" "$end" "$disk" $((used * 1000 / n)) $((disk * 1024 / n)) $((held * 1024 / n))
	rm -rf "$dir"
done
