#!/bin/sh
# Runs all checks except the tests.
# Usage: scripts/ci.sh "PACKAGES FOR THE RACE DETECTOR" FUZZTIME
set -eu
cd "$(dirname "$0")/.."
export GOFLAGS="${GOFLAGS:-} -buildvcs=false"
race=${1:-./store/wire}
fuzztime=${2:-5s}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
scripts/nomounts.sh --list >"$tmp/before"
step() { printf '== %s\n' "$1"; }

step gofmt
files=$(git ls-files '*.go')
# shellcheck disable=SC2086
[ -z "$files" ] || unformatted=$(gofmt -l $files)
if [ -n "${unformatted:-}" ]; then
	echo "not formatted: $unformatted" >&2
	exit 1
fi

step "go vet"
go vet ./...

step staticcheck
# SA5008 knows only the tag options of encoding/json, not those of our own schema.
go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 -checks inherit,-SA5008 ./...

step "dead code"
# Functions in scripts/testkit may be called by tests only.
go run golang.org/x/tools/cmd/deadcode@v0.52.0 -f '{{range .Funcs}}{{println .Position .Name}}{{end}}' ./... |
	grep -vE '^($|scripts/testkit/)' >"$tmp/dead" || true
if [ -s "$tmp/dead" ]; then
	echo "never called:" >&2
	cat "$tmp/dead" >&2
	exit 1
fi

step "import rules"
scripts/imports.sh

step "build without cgo"
CGO_ENABLED=0 go build -trimpath -o "$tmp/" ./cmd/cachebro ./cmd/cachebro-fleet
"$tmp/cachebro" version
"$tmp/cachebro-fleet" version

step "vet and build for darwin"
# Nothing is run. Vet compiles the tests too. Vet runs for one processor only, because our code does
# not depend on the processor.
(
	export GOOS=darwin GOARCH=arm64 CGO_ENABLED=0
	go vet ./...
	go build -o "$tmp/cachebro.darwin" ./cmd/cachebro
	GOARCH=amd64 go build -o "$tmp/cachebro.darwin" ./cmd/cachebro
)

step "the overlay without O_PATH, openat2 and /proc/self/fd"
# Run these tests on real mounts with the portable system calls that darwin uses (fusefs/sys). A
# failed test is run again alone, as in test.sh.
CACHEBRO_NEED_FUSE=1 go run gotest.tools/gotestsum@v1.13.0 --format pkgname --format-hide-empty-pkg --rerun-fails=2 --rerun-fails-run-root-test --rerun-fails-max-failures=12 \
	--packages="./fusefs ./fusefs/sys ./store/leaf/procfs ./fusefs/capture" -- -tags portable -count=1 -timeout 5m

step "race detector"
# Shorten the race detector's pause at the end of every process, because the stdio tests start
# hundreds of processes.
GORACE=atexit_sleep_ms=10 CGO_ENABLED=1 CACHEBRO_NEED_FUSE=1 go run gotest.tools/gotestsum@v1.13.0 --format pkgname --format-hide-empty-pkg \
	--rerun-fails=2 --rerun-fails-run-root-test --rerun-fails-max-failures=12 --packages="$race" -- -race -short -timeout 10m

step "fuzzing, $fuzztime each"
scripts/fuzz.sh "$fuzztime"

step "a random agent, undone and redone"
# The agent works as three users, with a separate state directory. Each fault that is found is
# printed with its seed. "go run ./scripts/faults twin -first SEED -seeds 1 -shrink 30s" finds a
# shorter script that shows the fault.
if [ "$(id -u)" = 0 ]; then
	go build -o "$tmp/faults" ./scripts/faults
	"$tmp/faults" twin -cachebro "$tmp/cachebro" -dir "$tmp" -first 10009 -seeds 15
else
	echo "not root: left out"
fi

step "MCP: the official SDK, conformance suite and Inspector"
CACHEBRO_BIN="$tmp/cachebro" scripts/mcp-sdk/suite/run.sh

step "no mounts left behind"
scripts/nomounts.sh "$tmp/before"
echo "ci: ok"
