#!/bin/sh
# Runs every fuzz target for a while.
# Usage: scripts/fuzz.sh TIME
set -eu
cd "$(dirname "$0")/.."
export GOFLAGS="${GOFLAGS:-} -buildvcs=false"
fuzztime=${1:-5s}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# Fuzz without minimizing inputs, because on a loaded machine minimizing ends with Go's own error
# "hung or terminated". A failure for which Go wrote no input is also Go's own (a worker that was
# too slow). So such a target is run a second time.
fuzz() {
	go test -run '^$' -fuzz "^$2\$" -fuzztime "$fuzztime" -fuzzminimizetime 0x "./$1" >"$tmp/fuzz" 2>&1 && fuzzed=0 || fuzzed=$?
	cat "$tmp/fuzz"
	return $fuzzed
}
for file in $(git grep -l '^func Fuzz' -- '*_test.go'); do
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' "$file"); do
		fuzz "$(dirname "$file")" "$target" || {
			if grep -q 'Failing input written to' "$tmp/fuzz" || ! grep -qE 'context deadline exceeded|hung or terminated' "$tmp/fuzz"; then
				exit 1
			fi
			echo "$target: no failing input, so once more"
			fuzz "$(dirname "$file")" "$target"
		}
	done
done
