#!/bin/bash
# Checks out real histories through the mount, commit by commit. It compares the size of the store
# with that of git's own packs of the same history (git repack -adf: pack and index), and measures
# how the store shrinks when it is packed. It also checks that the parts that "store du" prints add
# up to the size on disk, and that fsck finds no fault.
#
# usage: storage.sh [CACHEBRO [REPOSITORY…]]
# Without a repository, it uses five histories with 1,972 commits. They come from a Go module that
# contains them for tests of a git library.
set -u -o pipefail
cachebro=$(realpath "${1:-bin/cachebro}")
shift
base=$(mktemp -d /tmp/safety.XXXXXX)
export NO_COLOR=1 GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*' GIT_CONFIG_KEY_1=advice.detachedHead GIT_CONFIG_VALUE_1=false
unset CLAUDE_CODE_SESSION_ID CACHEBRO_SESSION CACHEBRO_DIR
p='' failed=0 all_commits=0 all_store=0 all_git=0
leave() {
	cd /
	[ -n "$p" ] && { timeout 60 "$cachebro" umount "$p" >/dev/null 2>&1 || umount -l "$p" 2>/dev/null; }
	for pid in $(grep -lzx "XDG_RUNTIME_DIR=$base/run" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3); do
		[ "$pid" != $$ ] && [ "$(readlink "/proc/$pid/exe" 2>/dev/null)" = "$cachebro" ] && kill "$pid" 2>/dev/null
	done
	p=''
}
trap 'leave; rm -rf "$base"' EXIT

# fixtures unpacks the histories. Each is given as "pack head name".
fixtures() {
	local dir
	dir=$(cd / && GOFLAGS= go mod download -json github.com/go-git/go-git-fixtures/v4@v4.2.1 | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
	[ -d "$dir/data" ] || { echo "the histories cannot be had" >&2; return 1; }
	while read -r pack head name; do
		git init -q --bare "$base/$name.git"
		git -C "$base/$name.git" unpack-objects -q <"$dir/data/pack-$pack.pack" || return 1
		git -C "$base/$name.git" update-ref refs/heads/main "$head"
		git -C "$base/$name.git" symbolic-ref HEAD refs/heads/main
		echo "$base/$name.git"
	done <<-END
		f2e0a8889a746f7600e07d2246a2e29a72f696be 06ce06d0fc49646c4de733c45b7788aabad98a6f spinnaker
		7861f2632868833a35fe5e4ab94f99638ec5129b 3b91e44996ea6ae1276bce1cc44f38701c53ee6f skeetr
		3559b3b47e695b33b0913237a4df3357e739831c e8788ad9165781196e917292d6055cba1d78664e go-git
		4ec6344877f494690fc800aceaf2ca0e86786acb d2313db6e7ca7bac79b819d767b2a1449abb0a5d desk
		0d3d824fb5c930e7e7e1f0f399f2976847d31fd3 426503ae00f7d6ea45dd6b9d1a6a067767d3491d storable
	END
}

# taken prints the disk space that the project's store has allocated, without the ballast file.
taken() { find "$XDG_STATE_HOME"/cachebro/*/store -type f ! -name ballast -printf '%b\n' | awk '{ n += $1 * 512 } END { print n }'; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / b }'; }
check() { if [ "$1" = 0 ]; then echo "ok    $2"; else echo "FAIL  $2"; failed=1; fi; }

history() {
	local name git before after sum n=0
	name=$(basename "$1" .git)
	export XDG_STATE_HOME=$base/$name-state XDG_RUNTIME_DIR=$base/run HOME=$base/home
	mkdir -p -m 700 "$base/run" "$base/home" "$XDG_STATE_HOME"
	git clone -q --bare --no-local "$1" "$base/$name-packed.git" || return 1
	git -C "$base/$name-packed.git" repack -adfq
	git=$(cat "$base/$name-packed.git"/objects/pack/*.pack "$base/$name-packed.git"/objects/pack/*.idx | wc -c)
	p=$base/$name
	git clone -q --no-local "$1" "$p" || return 1
	git -C "$p" rev-list --reverse --topo-order HEAD >"$base/commits"
	git -C "$p" checkout -q "$(head -1 "$base/commits")"
	"$cachebro" mount "$p" >/dev/null || return 1
	while read -r c; do git -C "$p" checkout -q "$c" || return 1; n=$((n + 1)); done <"$base/commits"
	"$cachebro" store fsck --dir "$p" >"$base/fsck" 2>&1
	check $? "$name: $n commits, fsck: $(head -1 "$base/fsck")"
	before=$(taken)
	"$cachebro" store prune --dir "$p" >/dev/null || check 1 "$name: prune"
	"$cachebro" store fsck --dir "$p" >"$base/fsck" 2>&1
	check $? "$name: packed, fsck: $(head -1 "$base/fsck")"
	after=$(taken)
	sum=$("$cachebro" store du --json "$p" | tr ',{' '\n\n' | awk -F: '$1 ~ /"(Contents|Log|Slack)"/ { n += $2 } END { print n }')
	awk -v a="$sum" -v b="$after" 'BEGIN { exit !(a > 0.9 * b && a < 1.1 * b) }'
	check $? "$name: du adds up to $sum of $after bytes on disk"
	echo "      $name: $after bytes packed ($before before), git $git: $(ratio "$after" "$git")x"
	all_commits=$((all_commits + n)) all_store=$((all_store + after)) all_git=$((all_git + git))
	leave
}

if [ $# = 0 ]; then
	fixtures >"$base/list" || exit 1
else
	realpath "$@" >"$base/list"
fi
while read -r repository <&3; do history "$repository" || check 1 "$repository"; done 3<"$base/list"
echo "$all_commits commits: $all_store bytes, git $all_git: $(ratio "$all_store" "$all_git")x"
exit $failed
