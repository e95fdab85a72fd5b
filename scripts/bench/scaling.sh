#!/bin/sh
# Measures what a mount costs as the tree grows. The tree consists of empty files, so that making
# them is quick, in a git repository. Prints a line each for the plain tree and for the mount. heap
# is the growth of mountd's Go heap for each inode, after every file was looked up once. anon is all
# of mountd's anonymous memory after that.
# Usage: scripts/bench/scaling.sh CACHEBRO WORK NUMBER…
set -eu
cb=$1 work=$2
shift 2
field() { "$cb" status --json --dir "$many" | sed -n "s/.*\"capture\":{[^}]*\"$1\":\([0-9]*\).*/\1/p"; }
ms() { echo $((($(date +%s%N) - $1) / 1000000)); }
took() { # COMMAND…: prints its milliseconds
	t=$(date +%s%N)
	"$@" >/dev/null
	ms "$t"
}
looks() { git -C "$many" -c core.fsmonitor=false status --porcelain; }
asks() { git -C "$many" -c "core.fsmonitor=exec '$cb' fsmonitor" -c core.fsmonitorHookVersion=2 status --porcelain; }
middle() { # COMMAND…: prints the median of five runs
	for _ in 1 2 3 4 5; do took "$@"; done | sort -n | sed -n 3p
}
scanned() { # FILES: waits until the daemon has scanned them; the limit grows with their number
	end=$(($(date +%s) + 60 + $1 / 200))
	until "$cb" status --json --dir "$many" | grep -q '"done":true'; do
		[ "$(date +%s)" -lt $end ] || return 1
		sleep 0.2
	done
}
for n in "$@"; do
	many="$work/many$n"
	i=0
	while [ $i -lt "$n" ]; do
		mkdir -p "$many/d$i"
		(cd "$many/d$i" && seq $((n - i < 1000 ? n - i : 1000)) | xargs touch)
		i=$((i + 1000))
	done
	git -C "$many" init -q
	git -C "$many" config gc.auto 0
	git -C "$many" add -A
	git -C "$many" -c user.name=b -c user.email=b@example.org commit -qm all
	looks >/dev/null
	plain=$(middle looks)
	mount=$(took "$cb" mount "$many")
	t=$(date +%s%N)
	scanned "$n" && scan=$(ms "$t") || scan=
	first=$(took looks)
	again=$(middle looks)
	asks >/dev/null
	sleep 3 # after the mount, the kernel may still show what it had cached before
	asks >/dev/null
	asked=$(middle asks)
	"$cb" umount "$many" >/dev/null
	"$cb" mount "$many" >/dev/null
	scanned "$n" || :
	before=$(field heap_bytes)
	find "$many" -path "$many/.git" -prune -o -type f -size +1 -print
	t=$(date +%s%N)
	until [ "$(field inodes)" -ge "$n" ] || [ "$(ms "$t")" -gt 20000 ]; do sleep 0.5; done
	pid=$("$cb" status --json --dir "$many" | sed -n 's/.*"mountd_pid":\([0-9]*\).*/\1/p')
	printf 'scaling, %6d files: mount %d ms, first scan %s ms; git status plain %d ms, on the mount first %d ms, again %d ms, with fsmonitor %d ms; heap %d B per inode, anon %s kB\n' \
		"$n" "$mount" "${scan:-over $((60000 + n * 5))}" "$plain" "$first" "$again" "$asked" $((($(field heap_bytes) - before) / n)) "$(awk '/RssAnon/{print $2}' "/proc/$pid/status")"
	"$cb" umount "$many" >/dev/null
	rm -rf "$many"
done
