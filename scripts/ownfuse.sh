#!/bin/sh
# Runs a command in a separate mount namespace, in which /dev/fuse is a new device node with the
# given mode. Tests need modes that the machine's device does not have, and that device must not be
# changed. Needs root.
# Usage: scripts/ownfuse.sh MODE COMMAND [ARGUMENTS]
set -eu
[ $# -ge 2 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
# Make a file system for the node, because the temporary directory may be mounted without devices.
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
