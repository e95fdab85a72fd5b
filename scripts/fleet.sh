#!/bin/sh
# Runs the tests of what speaks to buckets against versitygw, a real S3 server over a
# directory. It is built once, into the user's cache.
set -eu
cd "$(dirname "$0")/.."
export CACHEBRO_NEED_FUSE="${CACHEBRO_NEED_FUSE:-1}"
version=v1.8.0
dir="${XDG_CACHE_HOME:-$HOME/.cache}/cachebro/versitygw-$version"
if [ ! -x "$dir/versitygw" ]; then
	mkdir -p "$dir"
	GOBIN="$dir" CGO_ENABLED=0 GOFLAGS= go install "github.com/versity/versitygw/cmd/versitygw@$version"
fi
CACHEBRO_VERSITYGW="$dir/versitygw" GOFLAGS="${GOFLAGS:-} -buildvcs=false" go test -count=1 ./store/remote ./store/daemon/sending
CACHEBRO_VERSITYGW="$dir/versitygw" GOFLAGS="${GOFLAGS:-} -buildvcs=false" go test -count=1 -run '^Test(Resume|OtherMachines|RestoreOfAnotherMachine|UncooperativeBucket|Fleet)$' ./cmd/cachebro/e2e
