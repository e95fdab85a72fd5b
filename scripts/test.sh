#!/bin/sh
# Runs all tests once, on real mounts, and ends with their count. A test that
# cannot mount, or finds no redis-server, fails here instead of being skipped.
# Usage: scripts/test.sh [GO TEST ARGUMENTS]; default ./...
set -eu
cd "$(dirname "$0")/.."
export CACHEBRO_NEED_FUSE="${CACHEBRO_NEED_FUSE:-1}"
export CACHEBRO_NEED_REDIS="${CACHEBRO_NEED_REDIS:-1}"
export GOFLAGS="${GOFLAGS:-} -buildvcs=false"
# The tests have mounts and processes of their own; those that were there before
# are not theirs.
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
scripts/nomounts.sh --list >"$tmp/before"
[ $# -gt 0 ] || set -- ./...
status=0
# Mounts of several packages at once compete for two cores, and some tests
# measure time: packages one after the other. No cached results: the end-to-end
# tests run a binary that the test cache knows nothing of.
go run gotest.tools/gotestsum@v1.13.0 --format pkgname --format-hide-empty-pkg -- -p 1 -count=1 -timeout 20m "$@" || status=$?
scripts/nomounts.sh "$tmp/before" || status=1
exit $status
