#!/bin/sh
# Runs the tests of the code that uses buckets. They use versitygw, a real S3 server that stores its
# data in a directory.
set -eu
cd "$(dirname "$0")/.."
export CACHEBRO_NEED_FUSE="${CACHEBRO_NEED_FUSE:-1}"
CACHEBRO_VERSITYGW=$(scripts/versitygw.sh)
export CACHEBRO_VERSITYGW
GOFLAGS="${GOFLAGS:-} -buildvcs=false" go test -count=1 ./store/remote ./cmd/cachebro/daemon/sending ./store/fleet ./cmd/cachebro-fleet
GOFLAGS="${GOFLAGS:-} -buildvcs=false" go test -count=1 -run '^Test(Resume|OtherMachines|Restore(OfAnotherMachine|LeavesWhatIsIgnoredThere)|UncooperativeBucket|Fleet|PlatformEngineer|HandedOverTwice)$' ./cmd/cachebro/e2e
