#!/bin/bash
# Four users work in one mount at the same time for a number of minutes: clone, build, test, npm ci,
# rebase, vim, sed, rm -rf. Each user does every step first in a plain directory and then in the
# mount. At the end the script runs fsck and compares the trees. It prints the descriptors and the
# memory of the mount's processes at the start, every ten minutes and at the end.
#
# usage: soak.sh [MINUTES [CACHEBRO]]; needs root, git, Go and vim. npm is left out if it is not
# installed or there is no network. WORK is the directory of the trees.
set -u -o pipefail
minutes=${1:-60}
cachebro=$(realpath "${2:-bin/cachebro}")
base=$(mktemp -d "${WORK:-/tmp}/soak.XXXXXX")
chmod 755 "$base"
export XDG_STATE_HOME=$base/state XDG_RUNTIME_DIR=$base/run HOME=$base/home NO_COLOR=1
unset CLAUDE_CODE_SESSION_ID CACHEBRO_SESSION CACHEBRO_DIR GOFLAGS
mkdir -m 700 "$base/run" "$base/state" "$base/home"
mkdir "$base/plain" "$base/mounted" "$base/users"
users=(0 65534 33 1)
bad=0

ours() { # ours NAME: prints the pids of this mount's processes with this sub-command
	local pid
	for pid in $(grep -lzx "XDG_RUNTIME_DIR=$base/run" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3); do
		[ "$(readlink "/proc/$pid/exe" 2>/dev/null)" = "$cachebro" ] && [ "$(tr '\0' '\n' 2>/dev/null <"/proc/$pid/cmdline" | sed -n 2p)" = "$1" ] && echo "$pid"
	done
}
finish() {
	cd /
	touch "$base/stop"
	wait
	"$cachebro" umount "$base/mounted" >/dev/null 2>&1 || umount -l "$base/mounted" 2>/dev/null
	for name in supervise mountd daemon; do for pid in $(ours $name); do kill "$pid" 2>/dev/null; done; done
	sleep 0.3
	if [ -n "${KEEP:-}" ]; then echo "kept: $base"; else rm -rf "$base"; fi
}
trap finish EXIT
fail() { echo "FAIL  $*"; bad=$((bad + 1)); }
usage() { # prints the descriptors and the PSS of the mount's three processes
	local name pid
	for name in supervise mountd daemon; do
		for pid in $(ours $name); do
			echo "$1 $name: $(ls "/proc/$pid/fd" | wc -l) descriptors, $(awk '/^Pss:/ { print int($2 / 1024) " MiB PSS" }' "/proc/$pid/smaps_rollup"), $(ls "/proc/$pid/task" | wc -l) threads"
		done
	done
	echo "$1 state: $(du -sm "$base/state" | cut -f1) MiB"
}

# All users clone this repository: a part of Go's own source with 12 commits and a branch to rebase.
export GIT_CONFIG_GLOBAL=$base/gitconfig GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'
cat >"$GIT_CONFIG_GLOBAL" <<'G'
[user]
	name = soak
	email = soak@example.com
[pack]
	threads = 1
[gc]
	auto = 0
[safe]
	directory = *
[advice]
	detachedHead = false
G
seed=$base/seed
(
	set -e
	mkdir "$seed" && cd "$seed"
	git init -q -b main .
	root=$(go env GOROOT)/src
	for d in strings bytes sort bufio text/template encoding/json go/ast go/parser go/scanner go/token net/http compress/flate; do
		mkdir -p "lib/$d" && cp "$root/$d"/*.go "lib/$d/"
		git add . && git commit -q -m "add $d"
	done
	printf 'module soak\n\ngo 1.21\n' >go.mod
	mkdir -p calc
	for i in $(seq 40); do printf 'package calc\n\n// F%d adds.\nfunc F%d(a int) int { return a + %d }\n' $i $i $i >calc/f$i.go; done
	printf 'package calc\n\nimport "testing"\n\nfunc TestAll(t *testing.T) {\n\tif F1(1)+F40(2) < 0 {\n\t\tt.Fatal("less")\n\t}\n}\n' >calc/calc_test.go
	mkdir -p cmd/app
	printf 'package main\n\nimport (\n\t"fmt"\n\t"soak/calc"\n)\n\nfunc main() { fmt.Println(calc.F7(35)) }\n' >cmd/app/main.go
	echo '{"name":"soak","version":"1.0.0","dependencies":{"lodash":"4.17.21","express":"4.19.2","typescript":"5.4.5"}}' >package.json
	if command -v npm >/dev/null && npm install --package-lock-only --no-audit --no-fund >"$base/npm.out" 2>&1; then :; else rm -f package-lock.json; echo "npm ci is left out" >&2; fi
	printf 'node_modules/\n/app\n*.log\n' >.gitignore
	git add . && git commit -q -m "the program"
	git checkout -q -b topic HEAD~3
	for i in 1 2 3 4; do echo "topic $i" >"topic$i.md"; sed -i "1s/^/\/\/ topic $i\n/" lib/sort/*.go; git add . && git commit -q -m "topic $i"; done
	git checkout -q main
) || { echo "cannot make the repository"; exit 1; }
chmod -R a+rX "$seed"

# Each user's Go cache begins with the compiled standard library.
(cd "$seed" && GOCACHE=$base/gocache GOTOOLCHAIN=local GOPROXY=off go build -trimpath -buildvcs=false -o "$base/app" ./cmd/app && GOCACHE=$base/gocache GOTOOLCHAIN=local go test ./calc >/dev/null) || exit 1

# step DIR ROUND runs one user's round in DIR. What it does depends only on ROUND.
cat >"$base/step.sh" <<'S'
set -e -o pipefail
cd "$1"
n=$2
d=w$((n % 3))
rm -rf "$d"
git clone -q --no-hardlinks -b main "$SEED" "$d"
cd "$d"
git branch -q topic origin/topic
go build -trimpath -buildvcs=false -o app ./cmd/app
[ "$(./app)" = 42 ]
go test ./calc >/dev/null
git checkout -q topic
git rebase -q main
ex -s calc/f$((n % 40 + 1)).go <<X
%s/return a/return $n - $n + a/
1i
// edited in round $n
.
x
X
# vim saves with a backup, a swap file and a rename over the old name
vim -u NONE -N -es -c 'set backup backupcopy=no' -c "normal Go// by vim in round $n" -c wq topic1.md </dev/null >/dev/null
sed -i "s/topic/round $n/" topic*.md lib/sort/*.go
find lib/net lib/go -name '*_test.go' -delete
rm -rf lib/compress "lib/text"
for i in $(seq 30); do echo "round $n, line $i" >>notes.log; done
mkdir -p out && cp -a calc "out/calc$n" && mv "out/calc$n" out/calc
git add -A && git commit -q -m "round $n"
git stash list >/dev/null
go build -trimpath -buildvcs=false -o app ./cmd/app
if [ -f package-lock.json ] && [ $((n % 4)) = 0 ]; then npm ci --no-audit --no-fund --prefer-offline --silent; fi
git gc -q --prune=now
git fsck --no-progress >/dev/null 2>&1
S

user() { # user UID: works in rounds until the time is over
	local uid=$1 home=$base/users/$1 n=0 where
	while [ ! -e "$base/stop" ] && [ "$(date +%s)" -lt "$end" ]; do
		n=$((n + 1))
		for where in plain mounted; do
			(cd / && setpriv --reuid "$uid" --regid "$uid" --clear-groups env -u XDG_STATE_HOME -u XDG_RUNTIME_DIR \
				HOME="$home" SEED="$seed" GOCACHE="$home/gocache" GOTOOLCHAIN=local GOPROXY=off TMPDIR="$home/tmp" \
				bash "$base/step.sh" "$base/$where/u$uid" "$n") >"$home/$where.out" 2>&1 ||
				{ echo "round $n in $where: $(tail -3 "$home/$where.out" | tr '\n' ' ')" >>"$home/failed"; }
		done
		echo "$n" >"$home/rounds"
	done
}

# facts DIR prints everything in a tree except git's index files, which contain inode numbers and
# times.
facts() {
	(cd "$1" && find . -name index -path '*/.git/index' -prune -o -printf '%y %m %U:%G %n %s %p %l\n' | awk '$1 == "d" { $4 = $5 = "" } { print }' | LC_ALL=C sort
	cd "$1" && find . -type f ! -path '*/.git/index' -print0 | LC_ALL=C sort -z | xargs -0 -r sha256sum
	for g in */w*/.git; do echo "$g"; git -C "${g%/.git}" ls-files -s | sha256sum; git -C "${g%/.git}" status --porcelain; done)
}

for u in "${users[@]}"; do
	for d in plain mounted; do mkdir "$base/$d/u$u"; chown "$u:$u" "$base/$d/u$u"; done
	mkdir -p "$base/users/$u/tmp" && cp -r "$base/gocache" "$base/users/$u/" && chown -R "$u:$u" "$base/users/$u"
done
"$cachebro" mount "$base/mounted" || exit 1
for _ in $(seq 300); do "$cachebro" status --json --dir "$base/mounted" 2>/dev/null | grep -q '"done": *true' && break; sleep 0.1; done
began=$(date +%s)
end=$((began + minutes * 60))
usage start
for u in "${users[@]}"; do user "$u" & done
next=$((began + 600))
while [ -n "$(jobs -rp)" ]; do
	sleep 1
	if [ "$(date +%s)" -ge $next ]; then usage "after $((($(date +%s) - began) / 60)) min"; next=$((next + 600)); fi
done
wait
for u in "${users[@]}"; do
	echo "user $u: $(cat "$base/users/$u/rounds") rounds"
	[ ! -e "$base/users/$u/failed" ] || { fail "user $u"; head -5 "$base/users/$u/failed"; }
done
"$cachebro" store fsck --dir "$base/mounted" >"$base/fsck.out" 2>&1 && tail -1 "$base/fsck.out" || { fail fsck; tail -5 "$base/fsck.out"; }
facts "$base/plain" >"$base/facts.plain"
facts "$base/mounted" >"$base/facts.mounted"
echo "$(wc -l <"$base/facts.plain") facts of the trees compared"
cmp -s "$base/facts.plain" "$base/facts.mounted" || { fail "the trees differ"; diff "$base/facts.plain" "$base/facts.mounted" | head -10; }
sleep "${SETTLE:-20}"
usage end
"$cachebro" status --dir "$base/mounted" 2>&1 | head -20
"$cachebro" umount "$base/mounted" >/dev/null || fail umount
facts "$base/mounted" >"$base/facts.under"
cmp -s "$base/facts.plain" "$base/facts.under" || { fail "the tree below differs"; diff "$base/facts.plain" "$base/facts.under" | head -10; }
echo "$minutes minutes, failures $bad"
[ $bad = 0 ]
