#!/bin/sh
# Runs after an installation or an update. The installed version takes over the mounts of all users,
# even mounts that are in use. A mount that cannot be taken over is named, and keeps running with
# its old version.
set -e
users=$(awk '$3 == "fuse.cachebro" && match($4, /user_id=[0-9]+/) { print substr($4, RSTART + 8, RLENGTH - 8) }' /proc/self/mounts 2>/dev/null | sort -u) || users=
for id in $users; do
	name=$(awk -F: -v id="$id" '$3 == id { print $1; exit }' /etc/passwd)
	[ -n "$name" ] || continue
	# Use the environment of a login, because the user's home says where the histories are.
	su -s /bin/sh - "$name" -c "exec timeout 60 /usr/bin/cachebro upgrade" </dev/null ||
		echo "cachebro: mounts of $name go on with the version that serves them; later, as $name: cachebro upgrade"
done
exit 0
