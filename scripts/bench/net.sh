#!/usr/bin/env bash
# Measures what "cachebro run" costs where nothing can be mounted. It does the same work plainly and
# under "cachebro run", by turns, in separate directories. It hides /dev/fuse. Processor time is
# that of the whole control group: the command, "cachebro run", its recorder until it has ended, and
# all processes that they start. The store's daemon, which reads the spool afterwards, has its own
# column. Prints a table for doc/performance.md.
#    scripts/bench/net.sh [RUNS] [TASK,TASK…]
#    tasks: nothing cold warm npm clone status rg tests creates deletes
# The task "nothing" shows the cost of run itself, which all other tasks include. The script
# needs root, and the cpuacct or cgroup2 hierarchy. npm ci needs the network once, to fill its
# cache.
# CACHEBRO_BENCH_DIR: directory to work in; CACHEBRO: a binary to use instead of building one
set -euo pipefail
cd "$(dirname "$0")/../.."
if [ -z "${BENCH_NET_INSIDE:-}" ]; then
	BENCH_NET_INSIDE=1 exec unshare -m --propagation private "$0" "$@"
fi
runs=${1:-5}
only=${2:-nothing,cold,warm,npm,clone,status,rg,tests,creates,deletes}
top=$PWD
work=$(mktemp -d "${CACHEBRO_BENCH_DIR:-${TMPDIR:-/tmp}}/cachebro-net.XXXXXX")
# A new namespace copies every mount. So unmount other projects' mounts here, which would otherwise
# stay in use.
sed -n 's/^[^ ]* [^ ]* [^ ]* [^ ]* \([^ ]*\) .* - fuse\.cachebro .*/\1/p' /proc/self/mountinfo | while read -r point; do umount -l -- "$(printf %b "$point")" || true; done
cachebro=${CACHEBRO:-}
[ -n "$cachebro" ] || { cachebro=$work/cachebro; CGO_ENABLED=0 go build -buildvcs=false -trimpath -o "$cachebro" ./cmd/cachebro; }
gocache=$(go env GOMODCACHE)
mount -t tmpfs tmpfs /dev
for d in "null 3" "zero 5" "random 8" "urandom 9"; do mknod -m 666 "/dev/${d% *}" c 1 "${d#* }"; done
ln -s /proc/self/fd /dev/fd
export HOME=$work/home XDG_STATE_HOME=$work/state XDG_RUNTIME_DIR=$work/run GIT_CONFIG_SYSTEM=/dev/null GOFLAGS=-buildvcs=false GOMODCACHE=$gocache CGO_ENABLED=0
export npm_config_cache=$HOME/.npm npm_config_audit=false npm_config_fund=false npm_config_update_notifier=false
unset TMPDIR GOCACHE
mkdir -m 700 "$HOME" "$work/state" "$work/run"

if [ -e /sys/fs/cgroup/cpuacct ]; then
	group=/sys/fs/cgroup/cpuacct/cachebro-net-$$
	used() { cat "$group/cpuacct.usage"; } # ns
else
	group=/sys/fs/cgroup/cachebro-net-$$
	used() { echo $(($(sed -n 's/^usage_usec //p' "$group/cpu.stat") * 1000)); }
fi
mkdir "$group"
finish() {
	cd /
	for lock in "$work"/state/cachebro/*/lock; do
		pid=$(sed 's/[^0-9].*//' "$lock" 2>/dev/null || true)
		[ -z "$pid" ] || kill "$pid" 2>/dev/null || true
	done
	n=0
	until rmdir "$group" 2>/dev/null || [ $n -ge 50 ]; do n=$((n + 1)); sleep 0.1; done
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM

wants() { case ",$only," in *",$1,"*) ;; *) return 1 ;; esac }
native=$HOME/native
mkdir "$native"
cd "$native"
git init -q -b main .
git config gc.auto 0 # otherwise gc would go on while the tree is copied
if wants cold || wants warm; then
	git -C "$top" archive HEAD store fusefs search go.mod go.sum | tar x
fi
if wants npm; then
	mkdir npm
	printf '{"name":"p","version":"1.0.0","private":true,"dependencies":{%s}}\n' "$(for p in express eslint@^9 typescript@^5 lodash date-fns@^3 chalk commander yargs axios debug semver uuid ws zod rxjs dayjs glob rimraf mkdirp minimist async bluebird moment inquirer ora dotenv cors body-parser morgan prettier; do
		n=${p%@*}; v=${p#"$n"}; printf '"%s":"%s",' "$n" "${v#@}"
	done | sed 's/:""/:"*"/g; s/,$//')" >npm/package.json
	(cd npm && npm install --package-lock --ignore-scripts >"$work/log" 2>&1 && rm -rf node_modules) || { cat "$work/log" >&2; exit 1; }
	echo node_modules >.gitignore
fi
if wants rg; then
	mkdir rg
	(cd rg && for d in $(seq 200); do mkdir "d$d"; for f in $(seq 100); do printf 'file %s of %s\nsome text with words in it\nanother line %s\n' "$f" "$d" "$RANDOM" >"d$d/f$f.txt"; done; done)
fi
if wants tests; then
	mkdir tests
	for i in $(seq 100); do
		printf 'import os, unittest\nclass T(unittest.TestCase):\n' >"tests/test_$i.py"
		for j in 1 2 3 4 5; do
			printf '    def test_%s(self):\n        n = "out/%s.%s"\n        with open(n, "w") as f:\n            f.write("x" * 200)\n        with open(n) as f:\n            self.assertEqual(len(f.read()), 200)\n        os.rename(n, n + ".done")\n' "$j" "$i" "$j" >>"tests/test_$i.py"
		done
	done
	mkdir tests/out
	printf 'out\n__pycache__\n' >tests/.gitignore
fi
if wants clone || wants status; then git clone -q --bare --no-local "$top" "$HOME/far.git"; fi
git add -A && git -c user.name=b -c user.email=b@example.org commit -q --allow-empty -m all
cp -a "$native" "$HOME/netted"

# For each task there are commands that prepare it, and commands that are timed. The latter run as a
# separate script.
declare -A before said task
before[nothing]=: task[nothing]=: said[nothing]='nothing'
before[cold]='rm -rf "$HOME/.cache/go-build"' task[cold]='go build ./store/leaf/... ./fusefs/outside' said[cold]='`go build`, cold'
before[warm]='go build ./store/... ./fusefs/... ; for f in store/leaf/*/doc.go store/doc.go; do echo "// $RANDOM" >>$f; done' task[warm]='go build ./store/... ./fusefs/...' said[warm]='`go build` after changes'
before[npm]='rm -rf npm/node_modules' task[npm]='cd npm && npm ci --prefer-offline --ignore-scripts >/dev/null 2>&1' said[npm]='`npm ci`'
before[clone]='rm -rf cloned' task[clone]='git clone -q --no-local "$HOME/far.git" cloned' said[clone]='`git clone`'
before[status]='[ -d other ] || git clone -q --no-local "$HOME/far.git" other; git -C other status >/dev/null' task[status]='cd other; for i in $(seq 100); do git status >/dev/null; done' said[status]='`git status`, 100 times'
before[rg]=: task[rg]='for i in $(seq 20); do rg -c "line 1234" rg >/dev/null || true; done' said[rg]='`rg` over 20,000 files, 20 times'
before[tests]='rm -rf tests/out; mkdir tests/out' task[tests]='cd tests; for i in 1 2 3; do python3 -m unittest -q 2>/dev/null; done' said[tests]='500 tests that write a file each, 3 times'
before[creates]='rm -rf many; mkdir many' task[creates]='cd many; i=0; while [ $i -lt 10000 ]; do echo $i >f$i; i=$((i+1)); done' said[creates]='10,000 files made'
before[deletes]='rm -rf many; mkdir many; (cd many; for i in $(seq 10000); do echo $i >f$i; done)' task[deletes]='rm -r many' said[deletes]='10,000 files removed'

# daemons prints the processor time that the store's daemons have used so far, in ms.
daemons() {
	for lock in "$work"/state/cachebro/*/lock; do
		pid=$(sed 's/[^0-9].*//' "$lock" 2>/dev/null || true)
		[ -z "$pid" ] || cut -d')' -f2 "/proc/$pid/stat" 2>/dev/null || true
	done | awk '{s += $12 + $13} END {print s * 10}'
}
# alone returns when only daemons are left in the group and they are idle. The timers of an open
# store take about 10 ms a second.
alone() {
	while grep -qx 'cachebro net' <(while read -r pid; do tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | sed 's/ $//'; echo; done <"$group/cgroup.procs"); do sleep 0.2; done
	was=$(daemons) now=-1
	until [ $((now - was)) -ge 0 ] && [ $((now - was)) -le 20 ]; do was=$(daemons); sleep 1; now=$(daemons); done
}
median() { sort -n "$1" | sed -n "$(((runs + 1) / 2))p"; }
least() { sort -n "$1" | head -1; }
most() { sort -n "$1" | tail -1; }
over() { awk -v a="$1" -v b="$2" 'BEGIN {printf "%.2f", b ? a / b : 0}'; }

printf '%s, %s cores, Linux %s; medians of %s (least–most), ms\n\n' "$(date +%F)" "$(nproc)" "$(uname -r)" "$runs"
printf '| | load | native: processor | net | ratio | native: clock | net | ratio | daemon |\n|---|---|---|---|---|---|---|---|---|\n'
for name in $(echo "$only" | tr , ' '); do
	for place in native netted; do : >"$work/cpu.$place"; : >"$work/clock.$place"; done
	: >"$work/daemon"
	for run in $(seq 0 "$runs"); do # the first run only warms up
		order="native netted"
		[ $((run % 2)) = 1 ] || order="netted native"
		for place in $order; do
			cd "$HOME/$place"
			bash -c "${before[$name]}" >/dev/null
			with=
			[ $place = native ] || with="$cachebro run --"
			alone
			cpu=$(used) of=$(daemons) began=$(date +%s%N)
			# shellcheck disable=SC2016,SC2086
			sh -c 'echo $$ >"$1/cgroup.procs"; shift; exec "$@"' sh "$group" $with sh -ec "${task[$name]}" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
			clock=$((($(date +%s%N) - began) / 1000000))
			alone
			daemon=$(($(daemons) - of)) cpu=$((($(used) - cpu) / 1000000))
			[ "$run" -gt 0 ] || continue
			echo $clock >>"$work/clock.$place"
			echo $((cpu - daemon)) >>"$work/cpu.$place"
			[ $place = native ] || echo $daemon >>"$work/daemon"
		done
	done
	line="| ${said[$name]} | $(cut -d' ' -f1 /proc/loadavg)"
	for what in cpu clock; do
		for place in native netted; do line="$line | $(median "$work/$what.$place") ($(least "$work/$what.$place")–$(most "$work/$what.$place"))"; done
		line="$line | $(over "$(median "$work/$what.netted")" "$(median "$work/$what.native")")"
	done
	echo "$line | $(median "$work/daemon") |"
done
