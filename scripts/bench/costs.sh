#!/bin/sh
# Prints the table of processor times without cachebro and with two builds, which take turns. All
# tasks run in memory on 5,000 files; most run again there on MANY files. Saves also run on the disk
# of TMPDIR.
# Usage: scripts/bench/costs.sh BEFORE NOW [RUNS [MANY]]
set -eu
cd "$(dirname "$0")/../.."
before=$(realpath "$1") now=$(realpath "$2") # both files must be called cachebro
runs=${3:-5} many=${4:-100000}
memory=$(mktemp -d /dev/shm/cachebro-costs.XXXXXX)
disk=$(mktemp -d "${TMPDIR:-/tmp}/cachebro-costs.XXXXXX")
trap 'rm -rf "$memory" "$disk"' EXIT
trap 'exit 1' INT TERM
go build -o "$memory/bench" ./scripts/bench/cost
printf '%s, %s cores, Linux %s; load before: %s\n' "$(date +%F)" "$(nproc)" "$(uname -r)" "$(cut -d' ' -f1 /proc/loadavg)"
"$memory/bench" -n "$runs" -files 5000 "$memory" "$before" "$now"
"$memory/bench" -n "$runs" -files "$many" -only 'index|ls|git|grep|search|save|rm|undo' "$memory" "$before" "$now"
printf 'on %s:\n' "$(stat -f -c %T "$disk")"
"$memory/bench" -n "$runs" -files 100 -only 'a save' "$disk" "$before" "$now"
