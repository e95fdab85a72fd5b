#!/bin/sh
# What agents did to git repositories, 29 disasters, as root and as an ordinary user, with
# kill -9 of the daemon or mountd before a third of the undos: each time the repository is
# as it was before (fsck, refs, index, stashes, reflogs, files).
# Usage: scripts/safety/git.sh [NAME], of one disaster
set -eu
cd "$(dirname "$0")/../.."
CACHEBRO_GITSAFE=all CACHEBRO_DISASTER=${1:-} exec go test -count=1 -v ./cmd/cachebro/e2e -run TestGitDisasters
