#!/bin/sh
# Installs what is missing to mount and to test: fusermount3, git, and the programs that tests use
# (ripgrep, setfacl, setfattr, sqlite3, patch, mkfs.ext4). With the argument "test" it also installs
# Redis and PostgreSQL, which tests start themselves, and npm, which installs the official SDK and
# suite for the checks of MCP. It prints nothing if everything is installed. Without root and sudo,
# it prints what has to be installed.
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
	# Tests make their own clusters. The package would also make and start a cluster, unless its
	# configuration forbids that. The configuration file written here is removed at the end.
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
	# Stop the server that the package starts, because the tests start their own.
	if [ -n "$redis" ] && command -v systemctl >/dev/null 2>&1; then
		$sudo systemctl disable --now redis-server >/dev/null 2>&1 || true
	fi
fi
if [ ! -e /dev/fuse ] && [ "$(id -u)" = 0 ]; then
	modprobe fuse 2>/dev/null || true
	# Make the device as udev would. If it exists, its mode is left alone.
	[ -e /dev/fuse ] || mknod -m 666 /dev/fuse c 10 229 2>/dev/null || true
fi
exit 0
