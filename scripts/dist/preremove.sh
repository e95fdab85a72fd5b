#!/bin/sh
# Runs before a removal, but does nothing before an update. Mounts keep running until they are
# unmounted, because the processes that serve them are already running. The files of a project are
# plain files, so the removal does not change them.
set -e
case "${1:-}" in
upgrade | 1) exit 0 ;;
esac
if grep -q ' fuse.cachebro ' /proc/self/mounts 2>/dev/null; then
	echo "cachebro: still mounted, and served until it is unmounted:" >&2
	awk '$3 == "fuse.cachebro" { print "          umount " $2 }' /proc/self/mounts >&2
	echo "          The files of these projects are plain files and stay as they are." >&2
fi
exit 0
