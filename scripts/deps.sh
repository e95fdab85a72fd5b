#!/bin/sh
# Installs what is missing to mount and to test: fusermount3, git, and what the
# tests compare with (ripgrep, setfacl, setfattr, patch, mkfs.ext4); with the argument "test" also the
# Redis and the PostgreSQL that tests start for themselves, and the npm by which the checks
# of MCP get the official SDK and suite. Quiet when everything is there; without
# root and sudo it says what to install.
set -eu
missing=
command -v fusermount3 >/dev/null 2>&1 || missing="$missing fuse3"
command -v git >/dev/null 2>&1 || missing="$missing git"
command -v rg >/dev/null 2>&1 || missing="$missing ripgrep"
command -v setfacl >/dev/null 2>&1 || missing="$missing acl"
command -v setfattr >/dev/null 2>&1 || missing="$missing attr"
command -v sqlite3 >/dev/null 2>&1 || missing="$missing sqlite3"
command -v patch >/dev/null 2>&1 || missing="$missing patch"
command -v mkfs.ext4 >/dev/null 2>&1 || [ -x /sbin/mkfs.ext4 ] || missing="$missing e2fsprogs"
redis=
if [ "${1:-}" = test ] && ! command -v redis-server >/dev/null 2>&1; then
	redis=redis-server
	missing="$missing redis-server"
fi
if [ "${1:-}" = test ] && ! command -v npm >/dev/null 2>&1; then
	missing="$missing npm"
fi
postgres=
if [ "${1:-}" = test ] && ! command -v initdb >/dev/null 2>&1 && ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
	postgres=postgresql
	missing="$missing postgresql"
fi
if [ -n "$missing" ]; then
	sudo=
	[ "$(id -u)" = 0 ] || sudo=sudo
	if ! command -v apt-get >/dev/null 2>&1 || { [ -n "$sudo" ] && ! command -v sudo >/dev/null 2>&1; }; then
		echo "missing:$missing (install them with your system's package manager)" >&2
		exit 1
	fi
	echo "installing:$missing"
	said=$(mktemp)
	# Tests make clusters of their own. The package makes and starts one, unless its
	# configuration says otherwise; what we put there goes again.
	own=/etc/postgresql-common/createcluster.d/cachebro.conf
	if [ -n "$postgres" ]; then
		trap '$sudo rm -f "$own"' EXIT
		$sudo mkdir -p "${own%/*}"
		echo 'create_main_cluster = false' | $sudo tee "$own" >/dev/null
	fi
	# shellcheck disable=SC2086
	{ $sudo apt-get update -q && $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $missing; } >"$said" 2>&1 || {
		cat "$said" >&2
		exit 1
	}
	rm -f "$said"
	# The package starts a server of its own; nobody asked for one.
	if [ -n "$redis" ] && command -v systemctl >/dev/null 2>&1; then
		$sudo systemctl disable --now redis-server >/dev/null 2>&1 || true
	fi
fi
if [ ! -e /dev/fuse ] && [ "$(id -u)" = 0 ]; then
	modprobe fuse 2>/dev/null || true
	# As udev would make it. The mode of one that is there is not ours to change.
	[ -e /dev/fuse ] || mknod -m 666 /dev/fuse c 10 229 2>/dev/null || true
fi
exit 0
