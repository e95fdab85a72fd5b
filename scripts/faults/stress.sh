#!/usr/bin/env bash
# Runs everything that strains a file system on one mount: stress-ng's file system stressors one
# after the other, fio with verification, and random I/O with mmap. A test that also fails in a
# plain directory does not count. At the end, the files that nothing has touched must be unchanged,
# the store must be in order, and the mount must work.
#    scripts/faults/stress.sh CACHEBRO [SECONDS]      (by default 600 for stress-ng)
# It runs as the user who calls it.
# FAULTS: a built scripts/faults; OPS: number of operations of fsx (1000000)
# BASE: directory to work in (by default a new directory for temporary files)
# RACE: a build with the race detector. Its mountd takes over the mount at the beginning. The daemon
# remains the ordinary build: a daemon with the race detector takes in the records some 50 times more
# slowly, and the run would only show how programs wait for it.
set -uo pipefail
[ $# -ge 1 ] || { echo "usage: stress.sh CACHEBRO [SECONDS]" >&2; exit 2; }
given=$(realpath "$1")
seconds=${2:-600}
here=$(cd "$(dirname "$0")/../.." && pwd)
for tool in stress-ng fio; do
  command -v $tool >/dev/null || { echo "stress.sh needs $tool" >&2; exit 2; }
done
base=${BASE:-$(mktemp -d)}
export XDG_STATE_HOME=$base/state XDG_RUNTIME_DIR=$base/run
mkdir -p -m 700 "$base/state" "$base/run"
mkdir -p "$base/plain" "$base/mounted"
bin=$base/cachebro
cp "$given" "$bin"
faults=${FAULTS:-$base/faults}
[ -x "$faults" ] || (cd "$here" && GOFLAGS=-buildvcs=false go build -o "$faults" ./scripts/faults) || exit 2
finish() {
  cd /
  "$bin" umount --lazy "$base/mounted" >/dev/null 2>&1
  for pid in $(grep -lzx "XDG_RUNTIME_DIR=$base/run" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3); do
    case $(readlink "/proc/$pid/exe" 2>/dev/null) in "$bin"*) kill "$pid" 2>/dev/null ;; esac
  done
  sleep 0.5
  rm -rf "$base"
}
trap finish EXIT
trap 'exit 1' INT TERM
bad=0
say() { printf '%s %s\n' "$(date +%T)" "$*"; }
wrong() { say "WRONG: $*"; bad=1; }

# Files that nothing touches, and their checksums.
mkdir "$base/mounted/still"
for i in $(seq 1 300); do head -c $((i * 97)) /dev/urandom >"$base/mounted/still/$i"; done
head -c 20000000 /dev/urandom >"$base/mounted/still/large"
(cd "$base/mounted" && find still -type f -exec sha256sum {} +) >"$base/sums"
export GORACE="log_path=$base/race exitcode=66"
"$bin" mount "$base/mounted" >/dev/null || exit 1
mountd() { # prints the pid of the process that serves the mount
  for pid in $(grep -lzx "XDG_RUNTIME_DIR=$base/run" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3); do
    { tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q '^[^ ]*cachebro mountd '; } 2>/dev/null && echo "$pid"
  done
}
if [ -n "${RACE:-}" ]; then
  old=$(mountd)
  cp "$RACE" "$bin.new" && mv "$bin.new" "$bin" && kill -9 "$old" || exit 1
  for _ in $(seq 100); do
    racing=$(mountd)
    [ -n "$racing" ] && [ "$racing" != "$old" ] && break
    sleep 0.1
  done
  cmp -s "/proc/$racing/exe" "$RACE" || { echo "stress.sh: mountd is not the build with the race detector" >&2; exit 1; }
  say "mountd is $RACE"
fi

# binderfs and bind-mount mount file systems of their own, so they do not test the mount.
list=$(stress-ng --class 'filesystem?' 2>&1 | sed -n 's/.*stressors: //p' | tr ' ' '\n' | grep -vx -e bind-mount -e binderfs)
count=$(echo "$list" | wc -l)
each=$((seconds / count))
[ $each -ge 1 ] || each=1
failed() { # DIR STRESSOR SECONDS: runs one stressor and returns its status
  timeout -k 10 $(($3 * 4 + 60)) stress-ng --"$2" 2 -t "$3" --temp-path "$1" --verify >"$base/log" 2>&1
}
passed=0
for s in $list; do
  if failed "$base/mounted" "$s" $each; then
    passed=$((passed + 1))
  elif failed "$base/plain" "$s" 2; then
    wrong "stress-ng --$s"
    failed "$base/mounted" "$s" 2
    grep -v 'info:' "$base/log" | head -5
  else
    say "stress-ng --$s fails in a plain directory too"
  fi
done
say "stress-ng: $passed of $count file-system stressors passed, $each s each, 2 at once"

cat >"$base/fio.ini" <<'I'
[global]
size=64m
verify=sha256
verify_fatal=1
verify_state_save=0
group_reporting=1
[sequential]
rw=write
bs=128k
[random]
stonewall
rw=randwrite
bs=4k
numjobs=4
[mapped]
stonewall
rw=randwrite
ioengine=mmap
bs=4k
numjobs=2
[mixed]
stonewall
rw=randrw
bsrange=512-64k
verify_backlog=256
numjobs=2
I
if (cd "$base/mounted" && mkdir -p fio && cd fio && fio --output="$base/fio.log" "$base/fio.ini"); then
  say "fio: every block verified"
else
  wrong "fio: $(grep -m3 -i -e verify -e error "$base/fio.log")"
fi
rm -rf "$base/mounted/fio"

if "$faults" fsx -ops "${OPS:-1000000}" -seed 3 "$base/mounted" >"$base/log" 2>&1; then
  say "fsx: $(tail -1 "$base/log")"
else
  wrong "fsx: $(tail -3 "$base/log")"
fi

(cd "$base/mounted" && sha256sum -c --quiet "$base/sums") || wrong "files that nobody touched have changed"
"$bin" store reindex --dir "$base/mounted" >"$base/log" 2>&1 || wrong "reindex: $(tail -3 "$base/log")"
"$bin" store fsck --dir "$base/mounted" >"$base/log" 2>&1 || wrong "fsck: $(tail -3 "$base/log")"
say "$(tail -1 "$base/log")"
say "$("$bin" status --dir "$base/mounted" | grep -m1 '^gaps' || echo 'gaps: none told')"
grep -q " $base/mounted fuse.cachebro" /proc/mounts || wrong "the mount is gone"
if [ -n "${RACE:-}" ]; then
  [ "$(mountd)" = "$racing" ] || wrong "mountd is another than at first"
  for f in "$base"/race.*; do
    [ -e "$f" ] && wrong "races: $(head -30 "$f")"
  done
fi
[ $bad = 0 ] && say "all clean" || say "not clean"
exit $bad
