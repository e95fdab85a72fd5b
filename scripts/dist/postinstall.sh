#!/bin/sh
# After an installation or an update. Mounts that an older version serves go on; each
# is taken over by the new one when its user asks for it.
set -e
if grep -q ' fuse.cachebro ' /proc/self/mounts 2>/dev/null; then
	echo "cachebro: mounted projects go on with the version that serves them;"
	echo "          'cachebro mount --upgrade DIR' has the new one take over, in use or not."
fi
exit 0
