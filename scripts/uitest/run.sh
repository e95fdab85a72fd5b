#!/bin/sh
# Drives the pages of cachebro ui in Debian's Chromium and checks them with axe-core from npm.
# Usage: scripts/uitest/run.sh CACHEBRO
# With SHOTS=DIR, pictures are stored in DIR. TAGS=uimany RUN=TestManyVersions measures a history of
# 100,000 versions.
set -eu
bin=$1
cd "$(dirname "$0")"
if ! command -v chromium >/dev/null 2>&1 || ! command -v npm >/dev/null 2>&1; then
	sudo=
	[ "$(id -u)" = 0 ] || sudo=sudo
	echo "installing: chromium npm"
	$sudo apt-get update -q >/dev/null
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends chromium fonts-dejavu-core npm >/dev/null
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
(cd "$tmp" && npm pack --silent axe-core@4.14.1 >/dev/null && tar xzf axe-core-*.tgz package/axe.min.js)
# Run in a separate mount namespace, because a copy of our mount in another namespace would keep the
# mount in use.
apart=
[ "$(id -u)" != 0 ] || apart=../namespace.sh
CACHEBRO_BIN=$bin AXE=$tmp/package/axe.min.js CACHEBRO_NEED_FUSE=1 $apart go test -tags "uitest ${TAGS-}" -run "${RUN-TestPages}" -v -count=1 -timeout 20m .
