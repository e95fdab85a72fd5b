#!/bin/sh
# Runs three things: the official MCP conformance suite over HTTP, for two versions of the protocol
# (2025-11-25 and 2026-07-28); the Inspector's command line over stdio (every tool is listed and
# called); and the official SDK's client over stdio. expected.json lists the checks of the suite that
# do not apply, with the reasons.
#    scripts/mcp-sdk/suite/run.sh [DIR]   (a mounted project; default: a new one)
# The tools are installed once, outside the repository.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../../.." && pwd)
npm_dir=${CACHEBRO_SUITE_NPM:-${XDG_CACHE_HOME:-$HOME/.cache}/cachebro-test/mcp-suite}
mkdir -p "$npm_dir"
if ! cmp -s "$here/package.json" "$npm_dir/package.json" || [ ! -d "$npm_dir/node_modules/node" ]; then
	cp "$here/package.json" "$npm_dir/"
	(cd "$npm_dir" && npm install --no-fund --no-audit --silent)
fi
work=$(mktemp -d)
cb=${CACHEBRO_BIN:-$work/cachebro}
[ -n "${CACHEBRO_BIN:-}" ] || (cd "$top" && GOFLAGS="${GOFLAGS:--buildvcs=false}" go build -o "$cb" ./cmd/cachebro)
own=
end() {
	[ -z "$own" ] || "$cb" umount "$own" >/dev/null 2>&1 || umount -l "$own" 2>/dev/null || true
	rm -rf "$work"
}
trap end EXIT
trap 'exit 1' INT TERM
dir=${1:-}
if [ -z "$dir" ]; then
	export XDG_STATE_HOME="$work/state" XDG_RUNTIME_DIR="$work/run"
	mkdir -m 700 "$work/state" "$work/run" "$work/project"
	own=$work/project dir=$work/project
	printf 'package a\n\n// A is exported.\nfunc A() int { return 1 }\n' >"$dir/a.go"
	printf '# A\n\n`A` in `a.go` gives one.\n' >"$dir/a.md"
	"$cb" mount --exact "$dir" </dev/null >/dev/null
fi
node=$npm_dir/node_modules/.bin/node
"$node" "$here/run.mjs" "$cb" "$dir" "$npm_dir" "$work/results"
cp "$here/check.mjs" "$npm_dir/" # the script finds the SDK next to it
"$node" "$npm_dir/check.mjs" "$dir" -- "$cb" serve --tools=all --reader=connection
