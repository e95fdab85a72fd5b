#!/bin/bash
# Runs xfstests, the test suite for the kernel's own file systems, on overlays of an ext4 disk. It
# compares the tests that fail with those that are expected to fail
# (scripts/faults/xfstests.expected).
# Usage: scripts/faults/xfstests.sh XFSTESTS [TESTS...]
# Without TESTS it runs all tests of xfstests.expected, which also says which of them may fail;
# "-g quick" means all quick tests. XFSTESTS is a built checkout of https://git.kernel.org/pub/scm/fs/xfs/xfstests-dev.git (build it with make; it needs
# libattr, libacl, libaio and xfslibs). Needs root.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tests=${1:-}
if [ ! -x "$tests/check" ] || [ ! -x "$tests/ltp/fsstress" ]; then
	echo "xfstests: skipped: no built xfstests in '$tests'" >&2
	exit 0
fi
if [ "${XFSTESTS_INSIDE:-}" != 1 ]; then
	# The mounts, the additional users and the mount helper exist only in this namespace.
	exec env XFSTESTS_INSIDE=1 unshare -m --propagation private "$0" "$@"
fi
tests=$(cd "$tests" && pwd)
shift
expected=$here/xfstests.expected
work=$(mktemp -d "${TMPDIR:-/tmp}/cachebro-xfstests.XXXXXX")
out=${XFSTESTS_OUT:-$work/results}
trap 'cd /; umount -l "$work/test" "$work/scratch" "$work/disk" 2>/dev/null || true; rm -rf "$work/state"; sleep 2; rm -rf "$work"' EXIT
mkdir -p "$work"/{disk,state,run,home,test,scratch,sbin,sbinwork,bin} "$out"
chmod 755 "$work" "$work"/*
chmod 700 "$work/run" "$work/state"
(cd "$here/../.." && go build -buildvcs=false -o "$work/bin/cachebro" ./cmd/cachebro)
truncate -s 4G "$work/image"
mkfs.ext4 -q -m 0 "$work/image"
mount -o loop "$work/image" "$work/disk"
mkdir "$work/disk/test" "$work/disk/scratch"

# mount -t fuse.cachebro SOURCE DIR
cat >"$work/sbin-helper" <<H
#!/bin/bash
source=\$1 dir=\$2; shift 2
flags= how=
while getopts 'o:t:nsfv' o; do
	[ "\$o" = o ] || continue
	IFS=, read -ra opts <<<"\$OPTARG"
	for x in "\${opts[@]}"; do
		case \$x in
		remount) how=remount ;;
		ro) ro=--read-only; flags=\$flags,ro ;;
		rw | defaults | allow_other | default_permissions | '') flags=\$flags,rw ;;
		*) flags=\$flags,\$x ;;
		esac
	done
done
if [ "\$how" = remount ]; then exec mount -i -o "remount,bind\$flags" "\$dir"; fi
export XDG_STATE_HOME=$work/state XDG_RUNTIME_DIR=$work/run HOME=$work/home
for i in \$(seq 60); do # the previous mount may still be ending
	$work/bin/cachebro mount --exact \$ro --at "\$dir" "\$source" >$work/said 2>&1 && break
	grep -q "another mount" $work/said || { cat $work/said >&2; exit 32; }
	sleep 0.5
done
case \$flags in
*atime* | *no* | *sync*) mount -i -o "remount,bind\$flags" "\$dir" ;;
esac
exit 0
H
chmod 755 "$work/sbin-helper"
mount -t overlay overlay -o "lowerdir=/usr/sbin,upperdir=$work/sbin,workdir=$work/sbinwork" /usr/sbin 2>/dev/null ||
	{ mkdir "$work/tmpfs" && mount -t tmpfs tmpfs "$work/tmpfs" && mkdir "$work/tmpfs/u" "$work/tmpfs/w" && mount -t overlay overlay -o "lowerdir=/usr/sbin,upperdir=$work/tmpfs/u,workdir=$work/tmpfs/w" /usr/sbin; }
cp "$work/sbin-helper" /usr/sbin/mount.fuse.cachebro
n=4200
for u in fsgqa fsgqa2 123456-fsgqa; do
	grep -q "^$u:" /etc/passwd && continue
	if [ $n = 4200 ]; then
		for f in passwd group; do cp /etc/$f "$work/$f" && mount --bind "$work/$f" /etc/$f; done
	fi
	n=$((n + 1))
	echo "$u:x:$n:$n::/:/bin/bash" >>/etc/passwd
	echo "$u:x:$n:" >>/etc/group
done
# xfstests asks df for the file system type. It knows no type with a subtype.
printf '#!/bin/bash\nset -o pipefail\n%s "$@" | sed s/fuse.cachebro/fuse/\n' "$(command -v df)" >"$work/bin/df"
# xfstests unmounts by device. Here the device is a directory, which is not a mountpoint.
cat >"$work/bin/umount" <<H
#!/bin/bash
args=()
for a; do
	[ "\$a" = "$work/disk/scratch" ] && a=$work/scratch
	[ "\$a" = "$work/disk/test" ] && a=$work/test
	args+=("\$a")
done
exec $(command -v umount) "\${args[@]}"
H
chmod 755 "$work/bin/df" "$work/bin/umount"
cat >"$work/config" <<C
export FSTYP=fuse FUSE_SUBTYP=.cachebro
export TEST_DEV=$work/disk/test TEST_DIR=$work/test
export SCRATCH_DEV=$work/disk/scratch SCRATCH_MNT=$work/scratch
export RESULT_BASE=$out
C
mount -t fuse.cachebro "$work/disk/test" "$work/test"
[ $# -gt 0 ] || set -- $(sed -n 's|^\(generic/[0-9]*\).*|\1|p' "$expected")
cd "$tests"
PATH=$work/bin:$PATH HOST_OPTIONS=$work/config ./check "$@" </dev/null 2>&1 | tee "$out/said" || true
# Compare the tests that failed with the list of those that are expected to fail, which gives a
# reason for each.
sed -n 's|^Failures: ||p' "$out/said" | tr ' ' '\n' | grep . | sort >"$out/failed" || true
sed -n 's|^\(generic/[0-9]*\) fails.*|\1|p' "$expected" | sort >"$out/may" || true
if new=$(comm -23 "$out/failed" "$out/may") && [ -n "$new" ]; then
	echo "xfstests: not expected to fail:" $new
	exit 1
fi
echo "xfstests: $(sed -n 's|^Ran: ||p' "$out/said" | wc -w) run, $(wc -l <"$out/failed") failed, all of them expected to"
