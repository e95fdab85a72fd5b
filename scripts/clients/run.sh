#!/bin/sh
# Installs the newest versions of the clients below from npm and gives each of them cachebro's
# plugin from this checkout. Each client works for a scripted model on loopback. The script prints a
# table of what each client could do (doc/clients.md). It needs no account and no key, and each
# client has its own home. It needs node, and either root's rights or fuse3.
#
#	scripts/clients/run.sh [-only CLIENT] [-scene ABILITY] [-dir DIR]
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
npm_dir=${CACHEBRO_CLIENTS_NPM:-${XDG_CACHE_HOME:-$HOME/.cache}/cachebro-test/clients}
mkdir -p "$npm_dir"
npm install --prefix "$npm_dir" --no-fund --no-audit --silent @anthropic-ai/claude-code@latest @openai/codex@latest @google/gemini-cli@latest opencode-ai@latest @github/copilot@latest @qwen-code/qwen-code@latest
export GOFLAGS="${GOFLAGS:--buildvcs=false}"
cd "$top"
CGO_ENABLED=0 go build -o bin/cachebro ./cmd/cachebro
go build -o bin/clients ./scripts/clients
go build -o bin/claude-checks ./scripts/claude
export CACHEBRO_TOP="$top"
exec bin/clients -claude "$top/bin/claude-checks" -cachebro "$top/bin/cachebro" -npm "$npm_dir" "$@"
