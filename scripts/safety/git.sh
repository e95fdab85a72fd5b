#!/bin/sh
# Tests the undo of 29 disasters that agents caused in git repositories, as root and as an ordinary
# user. Before a third of the undos, the daemon or mountd is killed with kill -9. Each time the
# repository must be restored (fsck, refs, index, stashes, reflogs, files).
# Usage: scripts/safety/git.sh [NAME], where NAME selects one disaster
set -eu
cd "$(dirname "$0")/../.."
CACHEBRO_GITSAFE=all CACHEBRO_DISASTER=${1:-} exec go test -count=1 -v ./cmd/cachebro/e2e -run TestGitDisasters
