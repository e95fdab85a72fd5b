#!/bin/sh
# Lets a newer cachebro open the store of an older one, and kills the newer daemon at KILLS random
# moments. Then it compares the answers of both programs: the log, files at a moment, the plan of a
# restore, and fsck. WORK contains a history that the older program made
# (scripts/bench/history -make, built at its revision). The script adds renamed directories and a
# file with 50 names to it. Prints the processor time and memory of the newer daemon until its first
# answer.
# Usage: scripts/namespace.sh scripts/safety/migrate.sh OLD NEW WORK [KILLS]; default 50
set -eu
old=$1 new=$2 work=$(readlink -f "$3") kills=${4:-50}
dir=$work/project
export HOME="$work/home" XDG_STATE_HOME="$work/state" XDG_RUNTIME_DIR="$work/run" NO_COLOR=1
mkdir -p "$HOME" "$work/run"
chmod 700 "$work/run"
daemon() { pgrep -f "daemon --root $dir\$" || true; }
stop() { # ends the daemon, so that it closes the store
	for pid in $(daemon); do
		kill "$pid" 2>/dev/null || true
		while kill -0 "$pid" 2>/dev/null && ! grep -q '^State:.Z' "/proc/$pid/status" 2>/dev/null; do sleep 0.1; done
	done
}
trap stop EXIT
ask() { # CACHEBRO: prints answers that do not depend on the version of the program
	cd "$dir"
	"$1" log --json -n 100000000 | sha256sum
	"$1" log --json -n 1000 src | sha256sum
	for f in app.log src/d0/f1.go hot/f7.go moved/d1/f60.go names/7; do "$1" log --json "$f" | sha256sum; done
	for at in $((versions / 3)) $((versions * 9 / 10)) $((versions + 20)); do
		"$1" restore --at "#$at" --dry-run src names 2>&1 | sha256sum
	done
	for f in src/d0/f1.go@2 hot/f7.go@-1 names/7@-1 names/7@2; do "$1" show "$f" | sha256sum; done
	"$1" store fsck 2>&1 | grep -o '^[^,;]*versions' || echo fsck failed
	cd /
}
versions=$(cat "$work/versions")
if [ -e "$work/kept" ]; then # use the history that an earlier run has kept
	rm -rf "$work/state"
	cp -a "$work/kept" "$work/state"
fi
if [ ! -e "$work/added" ]; then
	"$old" mount "$dir" >/dev/null
	perl -e 'chdir $ARGV[0]; system("cp -r src moved"); for (1 .. 6) { rename("moved", "moved$_"); rename("moved$_", "moved") }
		mkdir "names"; system("echo first >names/0"); link("names/0", "names/$_") for 1 .. 49;
		for my $i (1 .. 5) { open(F, ">>", "names/0"); print F "save $i\n"; close F }' "$dir"
	"$old" umount "$dir" >/dev/null
	touch "$work/added"
fi
(cd "$dir" && while "$old" status --json | tr -d ' \n' | grep -q '"lag":[1-9]'; do sleep 1; done)
ask "$old" >"$work/before"
stop
[ -e "$work/kept" ] || cp -a "$work/state" "$work/kept"
failed=0
for n in $(seq "$kills"); do
	"$new" log -n 1 "$dir" >/dev/null 2>&1 &
	asker=$!
	for _ in $(seq 100); do [ -n "$(daemon)" ] && break || sleep 0.01; done
	sleep "$(awk -v seed="$n" 'BEGIN { srand(seed); printf "%.3f", rand() * rand() * 1.5 }')"
	for pid in $(daemon); do kill -9 "$pid" 2>/dev/null || true; done
	wait $asker || true
	stop
	if [ $((n % 10)) = 0 ] || [ "$n" = "$kills" ]; then
		ask "$new" >"$work/after"
		stop
		cmp "$work/before" "$work/after" || { failed=$((failed + 1)); cp "$work/after" "$work/after.$n"; }
		rm -rf "$work/state" # begin again with the older store
		cp -a "$work/kept" "$work/state"
	fi
done
"$new" log -n 1 "$dir" >/dev/null
pid=$(daemon)
awk '{ printf "until the first answer: %d ms of processor time, ", ($14 + $15) * 10 }' "/proc/$pid/stat"
awk '$1 == "VmHWM:" { printf "at most %d MB\n", $2 / 1024 }' "/proc/$pid/status"
echo "$kills kills, $failed differences"
[ $failed = 0 ]
