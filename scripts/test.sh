#!/bin/sh
# Runs all tests once, on real mounts, and prints their number at the end. A test that cannot mount,
# or that needs redis-server or PostgreSQL and does not find it, fails here instead of being
# skipped.
# Usage: scripts/test.sh [GO TEST ARGUMENTS]; default ./...
#        scripts/test.sh quick    vets, and runs the tests that need no mount, server or other user
set -eu
cd "$(dirname "$0")/.."
# Test binaries without debug tables are linked in half the time.
export GOFLAGS="${GOFLAGS:-} -buildvcs=false -ldflags=-s"
# Packages whose tests mount, start servers or play sessions.
slow='cachebro/(cmd/cachebro|cmd/cachebro/(e2e|daemon)|scripts/replay|cmd/cachebro-fleet|fusefs|fusefs/(capture|mounts/supervisor|past)|store/(fleet|memo|memo/results|remote|portable)|mcp|hooks)$'
all=$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...)
if [ "${1:-}" = quick ]; then # Go keeps the results of packages that have not changed
	go vet ./...
	exec go test -vet=off -short $(printf '%s\n' "$all" | grep -vE "$slow")
fi
export CACHEBRO_NEED_FUSE="${CACHEBRO_NEED_FUSE:-1}"
export CACHEBRO_NEED_REDIS="${CACHEBRO_NEED_REDIS:-1}"
export CACHEBRO_NEED_POSTGRES="${CACHEBRO_NEED_POSTGRES:-1}"
# Remember the mounts and processes that exist before the tests, because the tests have not started
# these.
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
scripts/nomounts.sh --list >"$tmp/before"
status=0
# Do not use cached results, because the end-to-end tests run a binary that the cache does
# not consider.
flags='-vet=off -count=1 -timeout 20m'
run() { go run gotest.tools/gotestsum@v1.13.0 --format pkgname --format-hide-empty-pkg "$@" || status=1; }
if [ $# -gt 0 ]; then
	run -- -p 1 $flags "$@"
else
	# Test as many packages at a time as there are processors, and begin with the slowest ones. With
	# more packages at a time, tests that wait for a process would miss their deadlines.
	longest='cachebro/cmd/cachebro/e2e$'
	ordered=$(printf '%s\n' "$all" | grep -E "$longest" && printf '%s\n' "$all" | grep -E "$slow" | grep -vE "$longest" && printf '%s\n' "$all" | grep -vE "$slow")
	# A test that fails is named and run again alone, at most twice, because on a loaded machine one
	# test in thousands may miss its deadline. The run fails if a test fails each time, panics, or
	# does not build.
	run --rerun-fails=2 --rerun-fails-run-root-test --rerun-fails-max-failures=12 --rerun-fails-report="$tmp/again" \
		--packages="$(echo $ordered)" -- -p "$(getconf _NPROCESSORS_ONLN)" $flags
	[ ! -s "$tmp/again" ] || { echo "run again:" && cat "$tmp/again"; }
fi
scripts/nomounts.sh "$tmp/before" || status=1
exit $status
