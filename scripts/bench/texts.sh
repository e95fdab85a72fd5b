#!/bin/sh
# Measures the texts that are sent: token estimates compared with o200k_base over a code corpus,
# diffs compared with git's, and the time for a diff of 50,000 lines of which every hundredth has
# changed.
# Usage: scripts/bench/texts.sh
set -eu
cd "$(dirname "$0")/../.."
export GOFLAGS="${GOFLAGS:-} -buildvcs=false"
go test -count=1 -v -run '^TestEstimateAgainstTokenizer$' ./store/tokens | sed -n 's/^ *estimate_test.go:[0-9]*: /estimate, /p'
go test -count=1 -v -run '^TestSizeAgainstGit$' ./store/diff | sed -n 's/^ *diff_test.go:[0-9]*: /diff, /p'
go test -run '^$' -bench '^BenchmarkScattered' -benchtime 20x ./store/diff |
	awk '/^Benchmark/ { sub("Benchmark", "", $1); printf "diff, 50,000 lines, every hundredth changed (%s): %.1f ms\n", $1, $3 / 1e6 }'
