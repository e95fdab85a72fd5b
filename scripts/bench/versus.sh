#!/bin/sh
# Compares two builds by turns on the same machine. For each line it prints the median of RUNS runs
# of each build, the least and the greatest value, and a processor time. The processor time is the
# daemon's. For undo it is the sum of all cachebro processes and the client. For mcp, fresh and day
# it is that of the whole machine, so the machine must do nothing else. Each build works on its own
# copy, and only one of them is mounted at a time.
#
# Usage: scripts/bench/versus.sh BEFORE NOW WORK [RUNS [PART…]]
# BEFORE and NOW are two binaries.
# PART is one of index mcp fresh moves growth day undo. Without PART, all parts run.
# CACHEBRO_BENCH_TREE: a tree to copy instead of the Go source tree
# CACHEBRO_BENCH_SCALE: numbers of files for growth and undo (default 10000)
set -eu
cd "$(dirname "$0")/../.."
before=$(realpath "$1") now=$(realpath "$2") work=$3 runs=${4:-5}
shift 3
[ $# = 0 ] || shift
[ $# -gt 0 ] || set -- index mcp fresh moves growth day undo
tree=${CACHEBRO_BENCH_TREE:-$(go env GOROOT)/src}
scale=${CACHEBRO_BENCH_SCALE:-10000}
mkdir -p "$work"
work=$(realpath "$work")
export XDG_STATE_HOME="$work/state" XDG_RUNTIME_DIR="$work/run" GIT_CONFIG_GLOBAL=/dev/null GOFLAGS="${GOFLAGS:-} -buildvcs=false"
results="$work/results"
: >>"$results"
go build -o "$work/bench" ./scripts/bench
go build -o "$work/searches" ./scripts/bench/search
busy() { awk '$1 == "cpu" { print ($2 + $3 + $4 + $7 + $8) * 10 }' /proc/stat; } # ms
clean() {
	for dir in "$work"/tree "$work"/*/grown* "$work"/*/moves "$work"/*/cachebro "$work"/searched/mounted; do
		[ ! -d "$dir" ] || ! grep -q " $dir fuse" /proc/mounts || "$now" umount --force "$dir" >/dev/null 2>&1 || umount -l "$dir" 2>/dev/null || true
	done
	for lock in "$work"/state/cachebro/*/lock; do
		pid=$(sed 's/[^0-9].*//' "$lock" 2>/dev/null || true)
		[ -z "$pid" ] || kill "$pid" 2>/dev/null || true
	done
	sleep 1
	rm -rf "$work/state" "$work/run" "$work/tree" "$work/part" "$work/searched"
	mkdir -p -m 700 "$work/state" "$work/run" "$work/part"
}
trap clean EXIT
trap 'exit 1' INT TERM
result() { printf '%s|%s|%s|%s\n' "$1" "$build" "$2" "${3:-}" >>"$results"; } # LINE VALUE [CPU, ms]
first() { # CLIENTS: makes a first index of a new copy
	cp -r "$tree" "$work/tree"
	"$work/bench" -cachebro "$cb" -first-index "$1" "$work/tree" >"$work/out"
	grep -q 'complete after' "$work/out" || return 0
	sed -n 's/.*complete after \([0-9.]*\) s, processor time of the daemon \([0-9.]*\) s, most memory \([0-9]*\) MB.*/\1 \2 \3/p' "$work/out" >"$work/said"
	read -r passed used most <"$work/said"
	result "first index of the Go tree, $1 reading, complete after (s)" "$passed" "$(echo "$used" | awk '{ print $1 * 1000 }')"
	result "the same, $1 reading, resident at most (MB)" "$most"
	[ "$1" = 0 ] || quantiles "reads during it (ms)" clients
}
quantiles() { # LINE PATTERN: takes the quantiles from the last output
	sed -n "s/.*$2.*p50 *\([0-9.]*\) ms *p99 *\([0-9.]*\) ms.*/\1 \2/p" "$work/out" | head -1 >"$work/said"
	read -r p50 p99 <"$work/said" || return 0
	result "$1, p50" "$p50"
	result "$1, p99" "$p99"
}
part_index() {
	first 0
	clean
	first 1
}
part_mcp() {
	cp -r "$tree/net" "$work/tree"
	"$cb" mount "$work/tree" >/dev/null
	sleep 8
	c=$(busy)
	"$work/bench" -n 1 -only mcp -cachebro "$cb" "x=$work/tree" >"$work/out" 2>&1 || true
	result "re-reads over MCP, all of these (ms)" $(($(busy) - c))
	for kb in 2 20 60; do
		quantiles "unchanged, $kb kB (ms)" "unchanged, $kb kB"
		quantiles "diff, $kb kB (ms)" "diff, $kb kB"
	done
}
part_fresh() {
	mkdir "$work/searched"
	cp -r "$tree/net" "$work/searched/mounted"
	cp -r "$tree/net" "$work/searched/native"
	c=$(busy)
	"$work/searches" -fresh -cachebro "$cb" -native "$work/searched/native" -mounted "$work/searched/mounted" -work "$work/part" >"$work/out" 2>&1 || true
	sed -n 's/^found after close.*99 *\([0-9.]*\) ms \/ \([0-9.]*\) ms.*/\1 \2/p' "$work/out" >"$work/said"
	read -r p50 p99 <"$work/said" || return 0
	result "found after its close, two writers (ms), p50" "$p50" $(($(busy) - c))
	result "found after its close, two writers (ms), p99" "$p99"
}
part_moves() {
	scripts/bench/moves.sh "$cb" "$work/part" 500 100 >"$work/out"
	awk -F' *[|] *' -v OFS='|' -v b="$build" '/renames|links|saves/ { split($4, d, " "); split($8, l, " "); print $2 ", daemon (ms)", b, d[1], d[1]; print "log -n 5 beside " $2 " (ms)", b, l[1], "" }' "$work/out" >>"$results"
}
part_growth() {
	for n in $scale; do
		scripts/bench/growth.sh "$cb" "$work/part" "$n" >"$work/out"
		awk -F' *[|] *' -v OFS='|' -v b="$build" -v n="$n" '$2 == n {
			for (i = 2; i <= NF; i++) { split($i, v, " "); x[i] = v[1] }
			print n " files: indexed (ms)", b, x[5], x[6]; print n " files: resident at most (kB)", b, x[8], ""
			print n " files: search (ms)", b, x[10], ""; print n " files: log -n 20 (ms)", b, x[11], ""
			print n " files: status (ms)", b, x[12], ""; print n " files: umount (ms)", b, x[13], ""; print n " files: on disk (kB)", b, x[14], "" }' "$work/out" >>"$results"
	done
}
part_day() { # measures the native file system too, in the same minutes
	go build -o "$work/loopback" github.com/hanwen/go-fuse/v2/example/loopback
	scripts/bench/day.sh "$cb" "$work/loopback" "$work/part" . 1 >"$work/out"
	awk -F' *[|] *' -v OFS='|' -v b="$build" '$3 ~ /^[0-9]/ {
		split($5, v, /[^0-9.]+/); print $2 " (ms)", b, v[1], v[3]
		split($3, v, /[^0-9.]+/); print $2 ", natively (ms)", b, v[1], v[2] }' "$work/out" >>"$results"
}
part_undo() {
	for n in $scale; do
		c=$(busy)
		scripts/safety/many.sh "$cb" "$n" >"$work/out" || true # if it is slower than it should be, the table shows that
		c=$(($(busy) - c))
		took=$(sed -n 's/.*, undo \([0-9.]*\) s.*/\1/p' "$work/out")
		result "undo of rm -rf of $n files (s)" "$took" "$(awk '/CPU s/ { for (i = 2; i <= NF; i++) if ($i == "CPU") s += $(i - 1) } /^client/ { s += $3 + $6 } END { print s * 1000 }' "$work/out")"
		result "cp -a of them after the rm (s)" "$(sed -n 's/.*after rm -rf: \([0-9.]*\) s.*/\1/p' "$work/out")"
	done
}
for part; do
	for run in $(seq "$runs"); do
		for build in before now; do
			eval "cb=\$$build"
			clean
			echo "$(date +%T) $part, run $run, $build" >&2
			"part_$part"
		done
	done
done
clean
printf '%s, %s cores, Linux %s, load %s\n' "$(date +%F)" "$(nproc)" "$(uname -r)" "$(cut -d' ' -f1 /proc/loadavg)"
awk -F'|' '
	function sorted(s,  n, i, j, v) {
		n = split(s, a, " ")
		for (i = 2; i <= n; i++) { v = a[i] + 0; for (j = i - 1; j > 0 && a[j] + 0 > v; j--) a[j + 1] = a[j]; a[j + 1] = v }
		return n
	}
	function cell(s, c,  n, t) {
		if (!(n = sorted(s))) return "–"
		t = a[int((n + 1) / 2)] " (" a[1] "–" a[n] ")"
		if (n = sorted(c)) t = t ", cpu " a[int((n + 1) / 2)] / 1000 " s"
		return t
	}
	!($1 in seen) { seen[$1] = 1; names[++count] = $1 }
	{ value[$1, $2] = value[$1, $2] " " $3; if ($4 != "") cpu[$1, $2] = cpu[$1, $2] " " $4 }
	END {
		print "| | before | now |\n|---|---|---|"
		for (i = 1; i <= count; i++) {
			n = names[i]
			printf "| %s | %s | %s |\n", n, cell(value[n, "before"], cpu[n, "before"]), cell(value[n, "now"], cpu[n, "now"])
		}
	}' "$results"
