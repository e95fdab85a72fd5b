#!/bin/sh
# Runs fio in several directories by turns, buffered and in one job. It writes and reads 8 files of
# 24 MiB (small enough to be captured): sequentially in blocks of 1 MiB, and then for 3 s at random
# in blocks of 4 KiB. Before it reads, fio drops the pages that the kernel has cached for the files.
# The page cache below a mount stays warm. Prints medians of RUNS runs, in MB/s for the sequential
# tests and in operations/s for the others, each with its ratio to the native directory.
# Usage: scripts/bench/fio.sh RUNS NAME=DIR…      (the first is native)
set -eu
runs=$1
shift
common="--directory=fio --filesize=24m --nrfiles=8 --file_service_type=sequential --invalidate=1 --output-format=terse --terse-version=3"
figure() { # JOB: prints fio's result for the current directory
	case $1 in
	write) fio --name=a --rw=write --bs=1m --end_fsync=1 $common | cut -d';' -f48 ;;
	read) fio --name=a --rw=read --bs=1m $common | cut -d';' -f7 ;;
	randread) fio --name=a --rw=randread --bs=4k --runtime=3 --time_based $common | cut -d';' -f8 ;;
	randwrite) fio --name=a --rw=randwrite --bs=4k --runtime=3 --time_based $common | cut -d';' -f49 ;;
	esac
}
out=$(mktemp)
trap 'rm -f "$out"' EXIT
for job in write read randread randwrite; do
	: >"$out"
	i=0
	while [ $i -lt "$runs" ]; do
		for place in "$@"; do
			mkdir -p "${place#*=}/fio"
			echo "${place%%=*} $(cd "${place#*=}" && figure $job)" >>"$out"
		done
		i=$((i + 1))
	done
	line=
	native=
	for place in "$@"; do
		n=$(awk -v p="${place%%=*}" '$1 == p {print $2}' "$out" | sort -n | sed -n "$(((runs + 1) / 2))p")
		native=${native:-$n}
		case $job in
		write | read) shown="$((n / 1000)) MB/s" ;;
		*) shown="$n /s" ;;
		esac
		line="$line  ${place%%=*} $shown ($(awk "BEGIN {printf \"%.2f\", $n / $native}")x)"
	done
	printf 'fio %-9s%s\n' $job "$line"
done
for place in "$@"; do rm -rf "${place#*=}/fio"; done
