#!/bin/sh
# What works on this Mac, on one page to send back. It installs nothing and changes
# nothing outside of a temporary directory (Go's own caches apart).
# Usage: scripts/macos/check.sh [PACKAGES FOR go test]; default: all but the end-to-end tests
set -u
cd "$(dirname "$0")/../.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export GOFLAGS="${GOFLAGS:-} -buildvcs=false" CGO_ENABLED=0
export XDG_STATE_HOME="$tmp/state" XDG_RUNTIME_DIR="$tmp/run"
mkdir -m 700 "$tmp/state" "$tmp/run"
failed=0

# run NAME COMMAND...: one line for what went well, the last lines of what did not.
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
# It may find something: what it says is what counts.
echo "doctor:"
(cd "$tmp/project" && "$tmp/cachebro" doctor 2>&1) | sed "s|$tmp|TMP|g; s/^/      /"
exit $failed
