#!/bin/sh
# Installs the newest of the clients below from npm, gives each cachebro's plugin from this
# checkout, has it work for a scripted model on loopback, and prints what it could do as a
# table (doc/clients.md). No account, no key, homes of
# their own; needs node, and root's rights or fuse3.
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
