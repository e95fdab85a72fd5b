#!/bin/sh
# Runs all tests once, on real mounts, and ends with their count. A test that
# cannot mount, or finds no redis-server or PostgreSQL, fails here instead of being skipped.
# Usage: scripts/test.sh [GO TEST ARGUMENTS]; default ./...
set -eu
cd "$(dirname "$0")/.."
export CACHEBRO_NEED_FUSE="${CACHEBRO_NEED_FUSE:-1}"
export CACHEBRO_NEED_REDIS="${CACHEBRO_NEED_REDIS:-1}"
export CACHEBRO_NEED_POSTGRES="${CACHEBRO_NEED_POSTGRES:-1}"
export GOFLAGS="${GOFLAGS:-} -buildvcs=false"
# The tests have mounts and processes of their own; those that were there before
# are not theirs.
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
scripts/nomounts.sh --list >"$tmp/before"
status=0
# Mounts of several packages at once compete for two cores, and some tests
# measure time: packages one after the other. No cached results: the end-to-end
# tests run a binary that the test cache knows nothing of.
again=
[ $# -gt 0 ] || again=yes
set -- -p 1 -count=1 -timeout 20m "$@"
# In a run of everything a test that fails is run again on its own, at most twice,
# and named: on a loaded machine one in thousands may meet its deadline. What fails
# each time, panics or does not build fails.
if [ $again ]; then
	set -- --rerun-fails=2 --rerun-fails-run-root-test --rerun-fails-max-failures=12 --rerun-fails-report="$tmp/again" --packages=./... -- "$@"
else
	set -- -- "$@"
fi
go run gotest.tools/gotestsum@v1.13.0 --format pkgname --format-hide-empty-pkg "$@" || status=$?
[ ! -s "$tmp/again" ] || { echo "run again:" && cat "$tmp/again"; }
scripts/nomounts.sh "$tmp/before" || status=1
exit $status
