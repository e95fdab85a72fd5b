#!/bin/bash
# Tests the safety net on a real project, from end to end.
#
# A script that stands for an agent, with a session id in its environment as Claude Code sets it,
# does in a git repository what loses work: edits in place, rm -rf of untracked and ignored files, a
# moved directory, git stash, git clean -fdx, git checkout, a formatter for the whole tree. Then the
# test checks:
#    1. undo --session restores the tree: contents, modes, links, and the times of the files that it
#       restores; .git stays as the agent left it
#    2. redo restores the agent's tree, and another undo restores the first tree
#    3. a file that a person edited after the agent is a conflict, and everything else is undone
#
# usage: scenario.sh [CACHEBRO [SOURCE]]   CACHEBRO is the binary, and SOURCE a tree of Go files
# from which the project is made. AS_USER=name runs the script as that user.
set -u -o pipefail

cachebro=$(realpath "${1:-bin/cachebro}")
source=${2:-$(go list -m -f '{{.Dir}}' github.com/go-git/go-git/v5 2>/dev/null || go env GOROOT)/}
if [ -n "${AS_USER:-}" ]; then
	user=$AS_USER
	unset AS_USER
	stage=$(mktemp -d /tmp/safety-stage.XXXXXX)
	mkdir "$stage/tree"
	cp -r "$source/." "$stage/tree"
	cp "$cachebro" "$0" "$stage/"
	chmod -R a+rX "$stage"
	(cd / && runuser -u "$user" -- env PATH="$PATH" bash "$stage/$(basename "$0")" "$stage/$(basename "$cachebro")" "$stage/tree")
	status=$?
	rm -rf "$stage"
	exit $status
fi

base=$(mktemp -d /tmp/safety.XXXXXX)
export XDG_STATE_HOME=$base/state XDG_RUNTIME_DIR=$base/run HOME=$base/home NO_COLOR=1
export GIT_CONFIG_NOSYSTEM=1
unset CLAUDE_CODE_SESSION_ID CACHEBRO_SESSION CACHEBRO_DIR
mkdir -m 700 "$base/run"
mkdir "$base/home" "$base/state" "$base/project"
p=$base/project
failed=0

finish() {
	cd /
	"$cachebro" umount "$p" >/dev/null 2>&1 || umount -l "$p" 2>/dev/null || fusermount3 -u -z "$p" 2>/dev/null
	for pid in $(grep -lzx "XDG_RUNTIME_DIR=$base/run" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3); do
		[ "$pid" != $$ ] && [ "$(readlink "/proc/$pid/exe" 2>/dev/null)" = "$cachebro" ] && kill "$pid" 2>/dev/null
	done
	sleep 0.3
	if [ -z "${KEEP:-}" ]; then rm -rf "$base"; else echo "kept: $base"; fi
}
trap finish EXIT

ok() { printf 'ok    %s\n' "$*"; }
bad() { printf 'FAIL  %s\n' "$*"; failed=1; }
seconds() { date +%s.%N; }
took() { awk -v a="$1" -v b="$(seconds)" 'BEGIN { printf "%.2f s", b - a }'; }

# facts prints the kinds, modes, link targets and contents of a tree, without .git.
facts() {
	(cd "$1" && find . -path ./.git -prune -o -printf '%y %m %p %l\n' | LC_ALL=C sort
	cd "$1" && find . -path ./.git -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum)
}
times() { (cd "$1" && find . -path ./.git -prune -o -type f -printf '%T@ %p\n' | LC_ALL=C sort -k2); }
gitfacts() { (cd "$1/.git" && find . -type f -printf '%m %s %T@ %p\n' | LC_ALL=C sort -k4; cd "$1/.git" && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum); }

# same NAME A B: checks that two files with facts are equal.
same() {
	if cmp -s "$2" "$3"; then ok "$1"; else
		bad "$1"
		diff "$2" "$3" | head -${LINES_SHOWN:-15}
	fi
}

# The project is a real tree in git, with additional files that git does not track.
cp -r "$source/." "$p"
chmod -R u+w "$p"
rm -rf "$p/.git"
cd "$p"
printf '*.sqlite\n.env.local\n/dist/\n' >>.gitignore
mkdir -p tool && printf '#!/bin/sh\necho hello\n' >tool/run.sh && chmod 755 tool/run.sh
git init -q . && git config user.email a@example.org && git config user.name a
git config gc.auto 0
git add -A >/dev/null 2>&1 && git commit -qm first
mkdir -p work/deep/er dist work/empty
head -c 5242880 /dev/urandom >work/data.sqlite
echo 'TOKEN=secret' >.env.local && cp .env.local work/.env.local && chmod 600 .env.local work/.env.local
echo 'built' >dist/out.js
for i in $(seq 50); do echo "note $i" >"work/deep/note$i.md"; done
printf 'bytes\377\n' >work/deep/er/raw && : >work/deep/er/none && chmod 4755 work/deep/er/raw
ln -s ../data.sqlite work/deep/link && ln -s nowhere work/dangling
echo scratch >untracked.txt
some=$(git ls-files '*.go' | head -1)
echo '// not committed' >>"$some"
dirs=$(git ls-files | awk -F/ 'NF > 1 && $1 !~ /^[._]/ { print $1 }' | uniq)
moved=$(sed -n 1p <<<"$dirs") renamed=$(sed -n 2p <<<"$dirs")
cd /
files=$(find "$p" -path "$p/.git" -prune -o -type f -print | wc -l)
echo "project: $files files from $source, as $(id -un)"

"$cachebro" mount "$p" || { bad mount; exit 1; }
for _ in $(seq 600); do
	"$cachebro" status --json --dir "$p" 2>/dev/null | grep -q '"done": *true' && break
	sleep 0.2
done
cp -a "$p" "$base/copy"
facts "$p" >"$base/before.facts"
times "$p" >"$base/before.times"

# This script is the agent.
cat >"$base/agent.sh" <<AGENT
set -e
cd "$p"
sed -i 's/the/THE/g' \$(git ls-files '*.go' | sed -n '2,21p')
rm -rf work
mv "$moved" moved.away
git stash -q
git clean -qfdx
git checkout -q .
find . -type f -name '*.go' -not -path './.git/*' -print0 | xargs -0 sed -i 's/^\t/    /'
find . -name '*.go' -not -path '*testdata*' -not -path './.git/*' -print0 | xargs -0 -n 200 gofmt -w 2>/dev/null || true
echo made >new.txt
mv "$renamed" renamed.away
mkdir -p new/dir && echo made >new/dir/file
chmod 700 tool/run.sh
AGENT
start=$(seconds)
CLAUDE_CODE_SESSION_ID=agent-1 bash "$base/agent.sh" || bad "the agent failed"
echo "agent: $(took "$start")"
facts "$p" >"$base/after.facts"
times "$p" >"$base/after.times"
cmp -s "$base/before.facts" "$base/after.facts" && bad "the agent changed nothing"
gitfacts "$p" >"$base/after.git"

undo() { "$cachebro" undo --dir "$p" "$@"; }

start=$(seconds)
undo --session agent-1 --dry-run >"$base/dry.out" 2>&1 || bad "undo --dry-run: $(tail -3 "$base/dry.out")"
echo "undo --dry-run: $(took "$start"): $(tail -1 "$base/dry.out")"
facts "$p" >"$base/now"; same "a dry run changes nothing" "$base/after.facts" "$base/now"
undo --session agent-1 </dev/null >"$base/ask.out" 2>&1 && bad "undo in a script went on without --yes" || ok "undo in a script needs --yes"

start=$(seconds)
undo --session agent-1 --yes >"$base/undo.out" 2>&1 || bad "undo: $(grep -E 'conflict|lost|not done|cachebro:' "$base/undo.out" | head -5)"
echo "undo: $(took "$start"): $(tail -1 "$base/undo.out")"
facts "$p" >"$base/now"; same "undo brings contents, modes and links back" "$base/before.facts" "$base/now"
# A file that the agent rewrote with the same bytes counts as unchanged, and keeps its new time.
LC_ALL=C comm -12 <(grep -E '^[0-9a-f]{64}' "$base/before.facts" | LC_ALL=C sort) <(grep -E '^[0-9a-f]{64}' "$base/after.facts" | LC_ALL=C sort) | cut -c67- >"$base/unchanged"
expected() { awk -v unchanged="$base/unchanged" -v after="$base/after.times" 'BEGIN {
	while ((getline line <unchanged) > 0) kept[line] = 1
	while ((getline line <after) > 0) { name = substr(line, index(line, " ") + 1); late[name] = line }
} { name = substr($0, index($0, " ") + 1); print name in kept ? late[name] : $0 }' "$base/before.times"; }
# (In a directory that is renamed back, files keep the times that the agent gave them.)
expected | grep -vF " ./$renamed/" >"$base/want"
times "$p" | grep -vF " ./$renamed/" >"$base/now"; same "and times, where anything was changed" "$base/want" "$base/now"
diff -r --no-dereference -x .git "$base/copy" "$p" >"$base/diff.out" 2>&1 && ok "diff -r is empty" || { bad "diff -r"; head -5 "$base/diff.out"; }
gitfacts "$p" >"$base/now"; same ".git is as the agent left it" "$base/after.git" "$base/now"

start=$(seconds)
"$cachebro" redo --dir "$p" --yes >"$base/redo.out" 2>&1 || bad "redo: $(grep -E 'conflict|lost|not done|cachebro:' "$base/redo.out" | head -5)"
echo "redo: $(took "$start"): $(tail -1 "$base/redo.out")"
facts "$p" >"$base/now"; same "redo gives the agent's tree" "$base/after.facts" "$base/now"

undo --session agent-1 --yes >"$base/undo2.out" 2>&1 || bad "undo after redo: $(grep -E 'conflict|lost|not done|cachebro:' "$base/undo2.out" | head -5)"
facts "$p" >"$base/now"; same "undo after redo" "$base/before.facts" "$base/now"
"$cachebro" redo --dir "$p" --yes >"$base/redo2.out" 2>&1 || bad "second redo"
facts "$p" >"$base/now"; same "second redo" "$base/after.facts" "$base/now"

# A person now edits one of the files.
victim=$(cd "$p" && git ls-files '*.go' | sed -n 3p)
echo '// by a person' >>"$p/$victim"
cp -a "$p/$victim" "$base/victim"
undo --session agent-1 --yes >"$base/undo3.out" 2>&1 && bad "a conflict and exit status 0"
grep -q "conflict $victim" "$base/undo3.out" && ok "the person's file is a conflict" || { bad "no conflict for $victim"; tail -3 "$base/undo3.out"; }
cmp -s "$p/$victim" "$base/victim" && ok "and stays as it was" || bad "the person's file was changed"
facts "$p" | grep -vF "$victim" >"$base/now"
grep -vF "$victim" "$base/before.facts" >"$base/want"
same "the rest is undone" "$base/want" "$base/now"

"$cachebro" store fsck --dir "$p" >"$base/fsck.out" 2>&1 && ok "fsck is clean" || { bad fsck; tail -5 "$base/fsck.out"; }
"$cachebro" status --json --dir "$p" 2>/dev/null | grep -q '"gap_count": *0' && ok "no gaps" || bad "gaps"
exit $failed
