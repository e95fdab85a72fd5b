#!/bin/sh
# Runs a command in a mount namespace of its own, as root, for tests. A new
# namespace copies every mount, so that a test beside us could not unmount its
# own: the copies of other people's overlays are dropped first.
#
#	scripts/namespace.sh COMMAND…
exec unshare -m --propagation private sh -c '
	sed -n "s/^[^ ]* [^ ]* [^ ]* [^ ]* \([^ ]*\) .* - fuse\.cachebro .*/\1/p" /proc/self/mountinfo | while read -r point; do
		umount -l -- "$(printf "%b" "$point")" || true
	done
	exec "$@"' namespace "$@"
