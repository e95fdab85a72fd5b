#!/bin/sh
# Runs a command in a mount namespace of its own, whose /dev/fuse is a node of
# its own with the given mode. Tests need other modes than the machine has; the
# machine's device stays as it is. Needs root.
# Usage: scripts/ownfuse.sh MODE COMMAND [ARGUMENTS]
set -eu
[ $# -ge 2 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
# A file system of its own for the node: the temporary directory may be mounted
# without devices.
exec "$(dirname "$0")/namespace.sh" sh -euc '
	dir=$(mktemp -d)
	mount -t tmpfs -o mode=755 ownfuse "$dir"
	mknod -m "$1" "$dir/fuse" c 10 229
	mount --bind "$dir/fuse" /dev/fuse
	umount -l "$dir"
	rmdir "$dir"
	shift
	exec "$@"
' ownfuse "$@"
