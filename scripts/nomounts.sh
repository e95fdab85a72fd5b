#!/bin/sh
# Fails if a cachebro mount, or one of the processes of a mount, still exists after the tests.
# Usage: scripts/nomounts.sh [BEFORE]
# Mounts that are listed in the file BEFORE do not count. scripts/nomounts.sh --list prints the
# present mounts for that purpose.
set -eu
list() {
	awk '$3 == "fuse.cachebro" { print $2 }' /proc/self/mounts | sort
	for d in /proc/[0-9]*; do
		args=$(tr '\0' ' ' 2>/dev/null <"$d/cmdline") || continue
		case "$args" in
		*cachebro\ mountd\ * | *cachebro\ supervise\ * | *cachebro\ daemon\ --root\ *) echo "process ${d#/proc/} $args" ;;
		esac
	done | sort
}
if [ "${1:-}" = --list ]; then
	list
	exit 0
fi
before=${1:-/dev/null}
# A daemon ends shortly after its last client.
try=0
while :; do
	left=$(list | grep -vxFf "$before" || true)
	[ -n "$left" ] && [ $((try += 1)) -lt 60 ] || break
	sleep 0.5
done
if [ -n "$left" ]; then
	printf 'left behind:\n%s\n' "$left"
	exit 1
fi
echo "no mounts left behind"
