#!/bin/sh
# Mounts and unmounts one project again and again. No process, mount, descriptor or file may be left
# except the daemon, and the daemon must end when its state is deleted.
# Usage: scripts/safety/cycles.sh [ROUNDS]      (100)
set -eu
cd "$(dirname "$0")/../.."
rounds=${1:-100}
work=$(mktemp -d /tmp/cachebro-cycles.XXXXXX)
daemon=
trap 'umount -l "$work/p" 2>/dev/null || true; test -z "$daemon" || kill "$daemon" 2>/dev/null || true; rm -rf "$work"' EXIT
go build -buildvcs=false -o "$work/cachebro" ./cmd/cachebro
mkdir -p "$work/p" "$work/run" "$work/state"
chmod 700 "$work/run"
export HOME="$work" XDG_STATE_HOME="$work/state" XDG_RUNTIME_DIR="$work/run"
fail() { echo "cycles: $*" >&2; exit 1; }
# of COMMAND: prints the pids of this test's cachebro processes with this sub-command.
of() { pgrep -f "$work/cachebro $1 |cachebro $1 .*$work/p" || true; }
files() { find "$work/state" "$work/run" | grep -v -E '/spool/|/store/|/index/' | sort; }

for n in $(seq "$rounds"); do
	"$work/cachebro" mount "$work/p" >/dev/null
	echo "$n" >"$work/p/f$((n % 7))"
	"$work/cachebro" umount "$work/p" >/dev/null
	if [ "$n" = 5 ]; then
		daemon=$(of daemon)
		fds=$(ls "/proc/$daemon/fd" | wc -l)
		files >"$work/before"
	fi
done
left=$(of mountd)$(of supervise)
[ -z "$left" ] || fail "processes are left: $left"
! grep -q " $work/p " /proc/self/mountinfo || fail "a mount is left"
[ "$(of daemon)" = "$daemon" ] || fail "the daemon was $daemon and is $(of daemon)"
now=$(ls "/proc/$daemon/fd" | wc -l)
[ "$now" -le $((fds + 3)) ] || fail "the daemon had $fds descriptors and has $now"
files >"$work/after"
diff "$work/before" "$work/after" || fail "files have come"
ls -l "/proc/$daemon/fd" | grep -q " $work/p\$" && fail "the daemon holds the project's directory"
rm -rf "$work/state"
for i in $(seq 300); do
	kill -0 "$daemon" 2>/dev/null || { echo "cycles: $rounds mounts and unmounts, nothing is left ($fds descriptors, then $now)"; daemon=; exit 0; }
	sleep 0.1
done
fail "the daemon outlives its state"
