#!/bin/sh
# Checks what works on this Mac, and prints one page to send back. It installs nothing, and changes
# nothing outside a temporary directory except Go's own caches.
# Usage: scripts/macos/check.sh [PACKAGES FOR go test]; default: all except the end-to-end tests
set -u
cd "$(dirname "$0")/../.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export GOFLAGS="${GOFLAGS:-} -buildvcs=false" CGO_ENABLED=0
export XDG_STATE_HOME="$tmp/state" XDG_RUNTIME_DIR="$tmp/run"
mkdir -m 700 "$tmp/state" "$tmp/run"
failed=0

# run NAME COMMAND...: runs a command and prints one line. If the command fails, its last lines of
# output follow.
run() {
	name=$1
	shift
	if "$@" >"$tmp/out" 2>&1 </dev/null; then
		echo "ok    $name"
	else
		failed=1
		echo "FAIL  $name"
		tail -n 15 "$tmp/out" | sed 's/^/      /'
	fi
}

echo "cachebro $(git describe --always --dirty 2>/dev/null || echo '(no git)') on $(uname -srm)"
command -v sw_vers >/dev/null && sw_vers | sed 's/^/  /'
go version | sed 's/^/  /'
for fs in /Library/Filesystems/macfuse.fs /Library/Filesystems/osxfuse.fs; do
	[ ! -d "$fs" ] || echo "  $fs"
done

if [ $# -eq 0 ]; then
	go list ./... 2>/dev/null | grep -v '/e2e$' >"$tmp/packages"
else
	printf '%s\n' "$@" >"$tmp/packages"
fi
run "go vet" sh -c 'xargs go vet <"$1"' vet "$tmp/packages"
run "build" go build -trimpath -o "$tmp/cachebro" ./cmd/cachebro
while read -r package; do
	run "test $package" go test -count=1 "$package"
done <"$tmp/packages"

run "cachebro version" "$tmp/cachebro" version
run "cachebro help" "$tmp/cachebro" --help
mkdir "$tmp/project"
echo "package a" >"$tmp/project/a.go"
# doctor may find problems. Its text is printed here, and its status does not matter.
echo "doctor:"
(cd "$tmp/project" && "$tmp/cachebro" doctor 2>&1) | sed "s|$tmp|TMP|g; s/^/      /"

# story does what the README describes: it mounts in place, makes a change, shows the history,
# undoes the change, and unmounts.
story() {
	cd / && "$tmp/cachebro" mount --exact "$tmp/project" || return 1
	{
		mount | grep "$tmp/project" &&
			cd "$tmp/project" &&
			echo "package b" >a.go && mkdir sub && echo two >sub/b && mv sub/b sub/c && rm sub/c &&
			ls -la . && xattr -w com.apple.test value a.go && xattr -p com.apple.test a.go &&
			! touch .DS_Store &&
			"$tmp/cachebro" status && "$tmp/cachebro" log && "$tmp/cachebro" log a.go &&
			"$tmp/cachebro" revert --yes a.go && grep -q "package a" a.go
	}
	ok=$?
	cd / && "$tmp/cachebro" umount "$tmp/project" && grep -q "package a" "$tmp/project/a.go" && return $ok
}
# many does the usual work on the overlay with a few thousand files.
many() {
	cd / && "$tmp/cachebro" mount --exact "$tmp/project" || return 1
	(
		cd "$tmp/project" && mkdir many && i=0
		while [ $i -lt 3000 ]; do
			echo $i >many/$i || exit 1
			i=$((i + 1))
		done
		[ "$(ls many | wc -l)" -eq 3000 ] && rm -r many && git init -q . && git add -A && git status --short
	)
	ok=$?
	cd / && "$tmp/cachebro" umount "$tmp/project" && return $ok
}
if [ "$(uname)" != Darwin ]; then
	echo "      not a Mac: no mount was tried"
elif [ -d /Library/Filesystems/macfuse.fs ] || [ -d /Library/Filesystems/osxfuse.fs ]; then
	run "mount, log, revert, unmount" story
	run "3,000 files on a mount" many
	umount -f "$tmp/project" 2>/dev/null
	for log in "$tmp"/state/cachebro/*/*.log; do
		[ ! -s "$log" ] || { echo "${log##*/}:"; tail -n 15 "$log" | sed "s|$tmp|TMP|g; s/^/      /"; }
	done
else
	echo "      no macFUSE: no mount was tried; cachebro mount says:"
	"$tmp/cachebro" mount --exact "$tmp/project" 2>&1 | sed "s|$tmp|TMP|g; s/^/      /"
fi
exit $failed
