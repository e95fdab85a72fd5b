#!/bin/sh
# Measures lines of the bench with two builds by turns. Two mounts by the same build can differ by a
# third. So each round mounts both builds anew, and the table has the medians of all rounds.
# Usage: scripts/bench/lines.sh BEFORE NOW [ROUNDS [RUNS [ONLY]]]
# BEFORE and NOW are two binaries.
# CACHEBRO_BENCH_TREE: a tree to copy instead of the Go source tree
# CACHEBRO_BENCH_DIR: a directory to work in instead of the one for temporary files
set -eu
cd "$(dirname "$0")/../.."
before=$(realpath "$1") now=$(realpath "$2") rounds=${3:-4} runs=${4:-5} only=${5:-}
tree=${CACHEBRO_BENCH_TREE:-$(go env GOROOT)/src}
work=$(mktemp -d "${CACHEBRO_BENCH_DIR:-${TMPDIR:-/tmp}}/cachebro-lines.XXXXXX")
export XDG_STATE_HOME="$work/state" XDG_RUNTIME_DIR="$work/run" GIT_CONFIG_GLOBAL=/dev/null GOFLAGS="${GOFLAGS:-} -buildvcs=false"
binary() { [ "$1" = before ] && echo "$before" || echo "$now"; }
clean() {
	for build in before now; do
		! grep -q " $work/$build fuse" /proc/mounts || "$(binary $build)" umount --force "$work/$build" >/dev/null 2>&1 || umount -l "$work/$build" || true
	done
	for lock in "$work"/state/cachebro/*/lock; do
		pid=$(sed 's/[^0-9].*//' "$lock" 2>/dev/null || true)
		[ -z "$pid" ] || kill "$pid" 2>/dev/null || true
	done
	sleep 1
	rm -rf "$work/state" "$work/run" "$work/native" "$work/before" "$work/now"
}
trap 'clean; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
go build -o "$work/bench" ./scripts/bench
printf '%s, %s cores, Linux %s, %s; load before: %s; %s rounds of %s runs\n' "$(date +%F)" "$(nproc)" "$(uname -r)" \
	"$(stat -f -c %T "$work")" "$(cut -d' ' -f1 /proc/loadavg)" "$rounds" "$runs"
for round in $(seq "$rounds"); do
	mkdir -m 700 "$work/state" "$work/run"
	for place in native before now; do
		cp -r "$tree" "$work/$place"
		(cd "$work/$place" && git init -q . && git config gc.auto 0 && git add -A && git -c user.name=b -c user.email=b@example.org commit -qm all && git gc -q)
	done
	order="before now"
	[ $((round % 2)) = 1 ] || order="now before"
	places=
	for build in $order; do
		cb=$(binary $build)
		"$cb" mount "$work/$build" >/dev/null
		n=0
		until (cd "$work/$build" && "$cb" status --json) | grep -q '"done":true' || [ $n -ge 600 ]; do
			n=$((n + 1))
			sleep 0.1
		done
		# Earlier builds have this command under another name.
		(cd "$work/$build" && "$cb" store reindex || "$cb" reindex) >"$work/log" 2>&1
		places="$places $build=$work/$build"
	done
	# shellcheck disable=SC2086
	"$work/bench" -n "$runs" -only "$only" native="$work/native" $places >"$work/round$round"
	clean
done
# A cell looks like "29.1 µs 3.99x". The script takes the number before the unit from the column of
# each label.
cat "$work"/round* | awk '
	/^medians of/ { for (i = 0; i < 3; i++) label[i] = $(NF - 2 + i); next }
	{
		name = substr($0, 1, 32); rest = substr($0, 33)
		sub(/ +$/, "", name)
		if (split(rest, word, " ") < 8) next
		unit[name] = word[2]
		if (!(name in count)) names[++n] = name
		k = ++count[name]
		value[name, label[0], k] = word[1]; value[name, label[1], k] = word[3]; value[name, label[2], k] = word[6]
	}
	function median(name, label,    i, j, t, v) {
		for (i = 1; i <= count[name]; i++) v[i] = value[name, label, i] + 0
		for (i = 2; i <= count[name]; i++) for (j = i; j > 1 && v[j] < v[j - 1]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
		i = count[name]
		return i % 2 ? v[(i + 1) / 2] : (v[i / 2] + v[i / 2 + 1]) / 2
	}
	END {
		printf "| | native | before | now | now of before |\n|---|---|---|---|---|\n"
		for (m = 1; m <= n; m++) {
			name = names[m]; b = median(name, "before"); a = median(name, "now")
			printf "| %s | %.1f %s | %.1f | %.1f | %.2f |\n", name, median(name, "native"), unit[name], b, a, b ? a / b : 0
		}
	}'
