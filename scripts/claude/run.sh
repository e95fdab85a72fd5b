#!/bin/sh
# Drives the real Claude Code (npm, version pinned in package.json) on a mounted project with a
# scripted Messages API and prints each check with ok or FAIL. The client is installed once, outside
# the repository.
# Usage: scripts/claude/run.sh [-only NAME] [-dir DIR]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
npm_dir=${CACHEBRO_CLAUDE_NPM:-${XDG_CACHE_HOME:-$HOME/.cache}/cachebro-test/claude}
mkdir -p "$npm_dir"
if ! cmp -s "$here/package.json" "$npm_dir/package.json" || [ ! -x "$npm_dir/node_modules/.bin/claude" ]; then
	cp "$here/package.json" "$npm_dir/"
	(cd "$npm_dir" && npm install --no-fund --no-audit --silent)
fi
export GOFLAGS="${GOFLAGS:--buildvcs=false}"
(cd "$top" && go build -o bin/cachebro ./cmd/cachebro && CGO_ENABLED=0 go build -o bin/claude-checks ./scripts/claude)
export CACHEBRO_TOP="$top"
exec "$top/bin/claude-checks" -cachebro "$top/bin/cachebro" -claude "$npm_dir/node_modules/.bin/claude" "$@"
