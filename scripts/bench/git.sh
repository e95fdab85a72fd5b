#!/usr/bin/env bash
# Measures what it costs to save git's own files (undo --git, git lost). It does the same work on
# the plain file system, on a mount by a build that saves none of these files, and on a mount by the
# present build, by turns. Both mounts exist at the same time. The two builds differ in one line.
# Prints a table for doc/performance.md. npm ci needs npm, and the network once to fill the cache.
#   scripts/bench/git.sh [RUNS] [TASK,TASK…]
#   tasks: status commits checkout rebase fetch gc clone npm
# REBASE: number of commits that are rebased; CACHEBRO_BENCH_DIR: directory to work in
set -euo pipefail
cd "$(dirname "$0")/../.."
runs=${1:-7}
only=${2:-status,commits,checkout,rebase,fetch,gc,clone,npm}
many=${REBASE:-500}
work=$(mktemp -d "${CACHEBRO_BENCH_DIR:-${TMPDIR:-/tmp}}/cachebro-git.XXXXXX")
export XDG_STATE_HOME=$work/state XDG_RUNTIME_DIR=$work/run GIT_CONFIG_GLOBAL=$work/gitconfig GIT_CONFIG_SYSTEM=/dev/null
mkdir -m 700 "$work/state" "$work/run"
cat >"$GIT_CONFIG_GLOBAL" <<'C'
[user]
	name = bench
	email = bench@example.org
[core]
	fsync = none
[gc]
	auto = 0
[maintenance]
	auto = false
[advice]
	detachedHead = false
C
kinds="without with"
finish() {
	cd /
	for kind in $kinds; do
		"$work/bin/$kind/cachebro" umount "$work/$kind" >/dev/null 2>&1 || umount -l "$work/$kind" 2>/dev/null || true
	done
	for lock in "$work"/state/cachebro/*/lock; do
		pid=$(sed 's/[^0-9].*//' "$lock" 2>/dev/null || true)
		[ -z "$pid" ] || kill "$pid" 2>/dev/null || true
	done
	sleep 1
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM

# The build that saves none of git's files has a gitKeeper without a directory.
file=fusefs/capture/git.go
sed 's/^\treturn &gitKeeper{dir: dir,/\treturn \&gitKeeper{dir: "",/' $file >"$work/off.go"
! cmp -s $file "$work/off.go" || { echo "$file has no line that makes a keeper" >&2; exit 1; }
printf '{"Replace":{"%s":"%s"}}' "$PWD/$file" "$work/off.go" >"$work/overlay.json"
export GOFLAGS="${GOFLAGS:-} -buildvcs=false" CGO_ENABLED=0
go build -trimpath -overlay "$work/overlay.json" -o "$work/bin/without/cachebro" ./cmd/cachebro
go build -trimpath -o "$work/bin/with/cachebro" ./cmd/cachebro

# Make a repository of 400 files. The branch topic has the commits that are rebased, the branch
# other has another text in all files, and main has one commit that topic does not have.
{
	printf 'reset refs/heads/main\n'
	text() { printf 'data %d\n%s\n' $((${#1} + 1)) "$1"; }
	entry() { # BRANCH FROM MESSAGE
		printf 'commit refs/heads/%s\n' "$1"
		[ -n "$2" ] || printf 'mark :1\n'
		printf 'committer b <b@example.org> 1700000000 +0000\n'
		text "$3"
		[ "${2:--}" = - ] || printf 'from %s\n' "$2"
	}
	entry main "" first
	for i in $(seq 400); do printf 'M 100644 inline d%d/f%d.txt\n' $((i % 20)) "$i"; text "file $i of the first commit, $(printf '%080d' "$i")"; done
	entry other :1 other
	for i in $(seq 400); do printf 'M 100644 inline d%d/f%d.txt\n' $((i % 20)) "$i"; text "file $i of another branch, $(printf '%070d' "$i")"; done
	for i in $(seq "$many"); do
		from=-; [ "$i" -gt 1 ] || from=:1
		entry topic "$from" "topic $i"
		printf 'M 100644 inline d%d/topic%d.txt\n' $((i % 20)) $((i % 50))
		text "topic $i"
	done
	entry main :1 "main goes on"
	printf 'M 100644 inline main.txt\n'
	text "more"
} >"$work/import"
git init -q -b main "$work/native"
git -C "$work/native" fast-import --quiet <"$work/import"
git -C "$work/native" reset -q --hard main
git clone -q --bare --no-local "$work/native" "$work/far.git"
for i in $(seq 40); do
	tree=$(git -C "$work/far.git" rev-parse "topic~$((i % many))^{tree}")
	git -C "$work/far.git" update-ref "refs/heads/new$i" "$(git -C "$work/far.git" commit-tree "$tree" -p main -m "new $i")"
done
git -C "$work/native" remote add far "$work/far.git"
case ",$only," in *,npm,*)
	export npm_config_cache=$work/npm npm_config_audit=false npm_config_fund=false npm_config_update_notifier=false
	printf '{"name":"p","version":"1.0.0","private":true,"dependencies":{"typescript":"^5","eslint":"^9","date-fns":"^3","lodash":"^4"}}\n' >"$work/native/package.json"
	echo node_modules >>"$work/native/.git/info/exclude"
	(cd "$work/native" && npm install --package-lock --ignore-scripts >/dev/null && rm -rf node_modules)
esac
for kind in $kinds; do
	cp -a "$work/native" "$work/$kind"
	"$work/bin/$kind/cachebro" mount "$work/$kind" >/dev/null
	n=0
	until "$work/bin/$kind/cachebro" status --json --dir "$work/$kind" | grep -q '"done":true'; do
		n=$((n + 1))
		[ $n -lt 600 ] || { "$work/bin/$kind/cachebro" status --dir "$work/$kind" >&2; exit 1; }
		sleep 0.1
	done
done

# For each task there is a function that prepares it, and a function that is timed.
before_status() { git status >/dev/null; }
status() { for _ in 1 2 3 4 5; do git status >/dev/null; done; }
before_commits() { git checkout -q -B work main; }
commits() { for i in $(seq 25); do echo "$RANDOM $i" >d1/f1.txt; git commit -qam "work $i"; done; }
before_checkout() { git checkout -q main; }
checkout() { git checkout -q other; git checkout -q main; }
before_rebase() { git checkout -q -B work topic; }
rebase() { git rebase -q main; }
before_fetch() { git for-each-ref --format='delete %(refname)' refs/remotes/far | git update-ref --stdin; git gc -q --prune=now; }
fetch() { git fetch -q far; }
before_gc() {
	git checkout -q main
	for i in $(seq 450); do echo "loose $i $RANDOM" >"$work/loose/$i"; done
	find "$work/loose" -type f | git hash-object -w --no-filters --stdin-paths >/dev/null
}
gc() { git gc -q --prune=now; }
before_clone() { rm -rf cloned; }
clone() { git clone -q --no-local "$work/far.git" cloned; }
before_npm() { rm -rf node_modules; }
npm() { command npm ci --prefer-offline --ignore-scripts >"$work/log" 2>&1; }
mkdir "$work/loose"

said() {
	case $1 in
	status) echo "\`git status\`, 5 times" ;;
	commits) echo "25 commits" ;;
	checkout) echo "checkout of 400 other files, and back" ;;
	rebase) echo "rebase of $many commits" ;;
	fetch) echo "fetch of 40 new branches" ;;
	gc) echo "\`gc --prune=now\` with 450 loose objects" ;;
	clone) echo "clone into the mount" ;;
	npm) echo "\`npm ci\`, $(find "$work/native/node_modules" -type f | wc -l) files" ;;
	esac
}
median() { sort -n "$1" | sed -n "$(((runs + 1) / 2))p"; }
range() { echo "$(sort -n "$1" | head -1)–$(sort -n "$1" | tail -1)"; }

printf '%s, %s cores, Linux %s; load before: %s; medians of %s (least–most), ms\n\n' "$(date +%F)" "$(nproc)" "$(uname -r)" "$(cut -d' ' -f1 /proc/loadavg)" "$runs"
printf '| | native | without | with | with : without |\n|---|---|---|---|---|\n'
for task in $(echo "$only" | tr , ' '); do
	for place in native $kinds; do : >"$work/$task.$place"; done
	for run in $(seq "$runs"); do
		order="native without with"
		[ $((run % 2)) = 1 ] || order="with without native"
		for place in $order; do
			(
				cd "$work/$place"
				"before_$task"
				sleep 0.5 # do not measure the daemon's work for the preparation
				began=$(date +%s%N)
				$task || { cat "$work/log" >&2; exit 1; }
				echo $((($(date +%s%N) - began) / 1000000)) >>"$work/$task.$place"
			)
		done
	done
	line="| $(said "$task")"
	for place in native $kinds; do line="$line | $(median "$work/$task.$place") ($(range "$work/$task.$place"))"; done
	echo "$line | $(awk -v a="$(median "$work/$task.with")" -v b="$(median "$work/$task.without")" 'BEGIN {printf "%.2f", b ? a / b : 0}') |"
done
printf '\nload after: %s; kept of git: %s\n' "$(cut -d' ' -f1 /proc/loadavg)" "$("$work/bin/with/cachebro" status --dir "$work/with" | sed -n 's/^git kept: *//p')"
for kind in $kinds; do "$work/bin/$kind/cachebro" git lost --dir "$work/$kind" 2>&1 | head -1 | sed "s/^/git lost, $kind: /"; done
