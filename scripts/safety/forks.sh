#!/bin/bash
# Makes five forks at once of a real Go module and of a real npm package, then builds and tests in
# all of them at once. Each fork has its own files, including ignored ones (node_modules), and the
# staged changes, and the project stays unchanged (diff -r). This runs as root and, in a separate
# mount namespace, as an ordinary user. After that it measures what a fork costs: the time until a
# shell runs in it, compared by turns with cp -a of the same tree, and the space on disk. At the end
# it makes 20 forks at once.
#
# usage: forks.sh [CACHEBRO [TREE]]      (the defaults are bin/cachebro and Go's src)
# The cost is measured with TREE. npm fetches the npm package. The Go module is taken from the
# module cache.
set -u -o pipefail
cachebro=$(realpath "${1:-bin/cachebro}")
unset CLAUDE_CODE_SESSION_ID CACHEBRO_SESSION CACHEBRO_DIR GOENV
failed=0
that() { # STATUS TEXT: prints the result of a check
	if [ "$1" = 0 ]; then echo "ok    $2"; else echo "FAIL  $2"; failed=1; fi
}

surroundings() { # DIR: makes a home, a state and a runtime directory in DIR and uses them
	base=$1
	export HOME=$base/home XDG_STATE_HOME=$base/state XDG_RUNTIME_DIR=$base/run TMPDIR=$base NO_COLOR=1
	mkdir -p "$base" "$HOME" "$XDG_STATE_HOME" "$XDG_RUNTIME_DIR"
	chmod 700 "$XDG_RUNTIME_DIR"
	git config --global user.name tester
	git config --global user.email tester@example.com
}
finish() {
	cd /
	for point in $(awk -v base="$base/" 'index($2, base) == 1 && $3 == "fuse.cachebro" { print $2 }' /proc/mounts); do
		"$cachebro" umount "$point" >/dev/null 2>&1 || umount -l "$point" 2>/dev/null
	done
	for pid in $(grep -lzx "XDG_RUNTIME_DIR=$base/run" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3); do
		[ "$(readlink "/proc/$pid/exe" 2>/dev/null)" = "$cachebro" ] && kill "$pid" 2>/dev/null
	done
	sleep 0.5
	chmod -R u+w "$base" 2>/dev/null
	rm -rf "$base"
}
mounted() { # DIR: mounts it and waits for the end of the first scan
	"$cachebro" mount "$1" >/dev/null || return
	for _ in $(seq 900); do
		"$cachebro" status --json --dir "$1" 2>/dev/null | grep -q '"done": *true' && return
		sleep 0.2
	done
	return 1
}
# change_go and change_npm write files with the text $1 into a fork. build_go and build_npm build and
# test there.
change_go() {
	printf 'package pflag\n\nconst forkName = "%s"\n' "$1" >fork.go
	printf 'package pflag\n\nimport "testing"\n\nfunc TestFork(t *testing.T) {\n\tt.Log("this is " + forkName)\n}\n' >fork_test.go
}
build_go() { GOPROXY=off GOFLAGS=-mod=mod go build ./... && GOPROXY=off GOFLAGS=-mod=mod go test -count=1 -v . | grep -E 'this is|^(ok|FAIL|---.*FAIL)'; }
change_npm() { printf "require('tape')('fork', function (t) { t.comment('this is %s'); t.end(); });\n" "$1" >test/fork.js; }
build_npm() { npm pack --silent --offline && node_modules/.bin/tape 'test/*.js' | grep -E '^# (this is|pass|fail|ok)'; }

work() { # KIND: works in five forks of $base/KIND at once
	local kind=$1 p=$base/$1 i pids
	mounted "$p" || { that 1 "$kind: mount"; return; }
	cp -a "$p/." "$base/$kind.before"
	pids=()
	for i in 1 2 3 4 5; do
		"$cachebro" fork "$p-fork$i" --ignored --dir "$p" >"$base/out$i" 2>&1 &
		pids+=($!)
	done
	for i in 1 2 3 4 5; do
		wait "${pids[i - 1]}" || that 1 "$kind: fork $i: $(tail -1 "$base/out$i")"
	done
	local same=0
	for i in 1 2 3 4 5; do
		diff -r --exclude=.git "$base/$kind.before" "$p-fork$i" || same=1
		[ "$(git -C "$p" status --porcelain --ignored)" = "$(git -C "$p-fork$i" status --porcelain --ignored)" ] || same=1
	done
	that $same "$kind: five forks at once have all files of the project, and git says of each what it says of the project"
	pids=()
	for i in 1 2 3 4 5; do
		(cd "$p-fork$i" && "change_$kind" "fork number $i" && "build_$kind") >"$base/out$i" 2>&1 &
		pids+=($!)
	done
	for i in 1 2 3 4 5; do
		wait "${pids[i - 1]}" && [ "$(grep -c 'this is' "$base/out$i")" = 1 ] && grep -q "this is fork number $i$" "$base/out$i" && ! grep -q -i fail "$base/out$i"
		that $? "$kind: fork $i builds, passes its tests and says its own name: $(tail -1 "$base/out$i")"
	done
	git -C "$p" fsck --full --no-dangling >"$base/out" 2>&1
	that $? "$kind: git fsck of the project $(head -1 "$base/out")"
	# The forks store their worktrees and their staged changes in the project's .git.
	diff -r --exclude=.git "$base/$kind.before" "$p" && diff -r --exclude=worktrees --exclude=objects "$base/$kind.before/.git" "$p/.git"
	that $? "$kind: diff -r of the project is empty"
	for i in 1 2 3 4 5; do
		"$cachebro" fork drop --force "$p-fork$i" >"$base/out" 2>&1 || that 1 "$kind: drop of fork $i: $(tail -1 "$base/out")"
	done
	diff -r --exclude=.git "$base/$kind.before" "$p" && [ "$(git -C "$p" worktree list | wc -l)" = 1 ]
	that $? "$kind: so it is when they are dropped"
	"$cachebro" umount "$p" >/dev/null
}

projects() { # SEED
	surroundings "$base"
	for kind in go npm; do
		cp -a --no-preserve=ownership "$1/$kind" "$base/$kind"
		(
			failed=0
			cd "$base/$kind" && chmod -R u+w . && printf 'node_modules/\n*.tgz\n.env\n' >>.gitignore
			git init -q -b main . && git add -A && git commit -q -m start
			echo KEY=1 >.env
			echo staged >staged.txt
			git add staged.txt
			echo "not staged" >>README.md
			build_$kind >/dev/null 2>&1
			that $? "$kind: the project builds and passes its tests"
			exit $failed
		) || failed=1
		work $kind
	done
}

if [ "${2:-}" = --as-user ]; then
	unset GOCACHE GOPATH GOMODCACHE
	base=$4/work
	trap finish EXIT
	projects "$3"
	exit $failed
fi

script=$(realpath "$0")
here=$(dirname "$script")
tree=${2:-$(go env GOROOT)/src}
base=$(mktemp -d "${TMPDIR:-/tmp}/safety.XXXXXX")
top=$base
trap 'rm -rf "$top"' EXIT
trap 'exit 1' INT TERM
chmod 755 "$top"
module=$(cd "$here/../.." && go list -m -f '{{.Dir}}' github.com/spf13/pflag) || exit 1
mkdir "$top/seed" && cp -a "$module" "$top/seed/go" && chmod -R u+w "$top/seed/go"
(cd "$top/seed" && npm pack --silent minimist@1.2.8 >/dev/null && tar xzf minimist-1.2.8.tgz && mv package npm && cd npm &&
	node -e 'const fs = require("fs"), p = JSON.parse(fs.readFileSync("package.json")); delete p.scripts; p.devDependencies = { tape: "5.9.0" }; fs.writeFileSync("package.json", JSON.stringify(p, null, 2))' &&
	npm install --silent --no-fund --no-audit) || { echo "the npm package cannot be had"; exit 1; }
chmod -R a+rX "$top/seed"
part() { # DIR: the following commands work in DIR; at the end it is removed
	base=$1
	trap 'finish; rm -rf "$top"' EXIT
}
part "$top/own"
echo "as $(id -un)"
projects "$top/seed"
finish
if [ "$(id -u)" = 0 ]; then
	echo "as an ordinary user"
	cp "$cachebro" "$top/cachebro"
	cp "$script" "$top/forks.sh"
	mkdir "$top/user" && chown nobody: "$top/user"
	(cd / && TMPDIR=$top exec "$here/../ownfuse.sh" 666 runuser -u nobody -- env PATH="$PATH" TMPDIR="$top/user" bash "$top/forks.sh" "$top/cachebro" --as-user "$top/seed" "$top/user") || failed=1
fi

echo "the cost, as $(id -un), of $tree ($(find "$tree" -type f | wc -l) files, $(du -sm "$tree" | cut -f1) MB, $(df -T "$top" | awk 'END { print $2 }')), load $(cut -d' ' -f1-3 /proc/loadavg)"
part "$top/cost"
surroundings "$base"
cp -a "$tree" "$base/tree" && mounted "$base/tree" || exit 1
seconds() { awk -v a="$1" -v b="$(date +%s.%N)" 'BEGIN { printf "%.2f\n", b - a }'; }
median() { sort -n "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
# Nothing is removed between the turns, because ext4 creates files slowly where many files have just
# been deleted.
for i in 1 2 3 4 5; do
	s=$(date +%s.%N); cp -a "$tree" "$base/copy$i"; seconds "$s" >>"$base/copies"
	s=$(date +%s.%N); "$cachebro" fork "$base/fork$i" --dir "$base/tree" >"$base/out" && (cd "$base/fork$i" && sh -c :); seconds "$s" >>"$base/forks"
done
head -1 "$base/out"
echo "to a shell in a fork: $(median "$base/forks") s ($(sort -n "$base/forks" | xargs)); cp -a: $(median "$base/copies") s ($(sort -n "$base/copies" | xargs))"
state=$(echo "$base"/state/cachebro/fork5-*)
echo "on the disk: $(du -sm "$base/fork5" | cut -f1) MB of files, $(du -sm "$state" | cut -f1) MB of history when its first scan $("$cachebro" status --json --dir "$base/fork5" | grep -q '"done": *true' && echo is || echo "is not yet") done"
cp -a "$top/seed/go" "$base/small" && mounted "$base/small" || exit 1
pids=() s=$(date +%s.%N)
for i in $(seq 20); do
	"$cachebro" fork "$base/small-fork$i" --dir "$base/small" >"$base/out$i" 2>&1 &
	pids+=($!)
done
bad=0
for i in $(seq 20); do
	wait "${pids[i - 1]}" && diff -r "$base/small" "$base/small-fork$i" || bad=1
done
that $bad "20 forks at once of the Go module: $(seconds "$s") s, a diff -r of each included"
exit $failed
