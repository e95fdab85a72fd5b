#!/bin/sh
# Runs a command as root in a separate mount namespace, for tests. A new namespace has a copy of
# every mount. Copies of overlays are unmounted first, because they would keep the overlays of other
# running tests in use.
#
#	scripts/namespace.sh COMMAND…
exec unshare -m --propagation private sh -c '
	sed -n "s/^[^ ]* [^ ]* [^ ]* [^ ]* \([^ ]*\) .* - fuse\.cachebro .*/\1/p" /proc/self/mountinfo | while read -r point; do
		umount -l -- "$(printf "%b" "$point")" || true
	done
	exec "$@"' namespace "$@"
