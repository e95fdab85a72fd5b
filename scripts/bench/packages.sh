#!/usr/bin/env bash
# Measures what package managers pay: npm ci and, if it is installed, pnpm install of a few packages
# with thousands of files. They run with a warm cache in a plain directory, through go-fuse's
# loopback and through cachebro. pnpm makes links to its store in the plain directory. A mount is
# another file system, so there it must copy. Needs npm, and the network once to fill the caches.
#   scripts/bench/packages.sh CACHEBRO [RUNS]
set -euo pipefail
[ $# -ge 1 ] || { echo "usage: packages.sh CACHEBRO [RUNS]" >&2; exit 2; }
bin=$(realpath "$1")
runs=${2:-3}
cd "$(dirname "$0")/../.."
base=$(mktemp -d "${CACHEBRO_BENCH_DIR:-${TMPDIR:-/tmp}}/cachebro-packages.XXXXXX")
export XDG_STATE_HOME=$base/state XDG_RUNTIME_DIR=$base/run npm_config_cache=$base/npm PNPM_HOME=$base/pnpm
export npm_config_audit=false npm_config_fund=false npm_config_update_notifier=false
mkdir -m 700 "$base/state" "$base/run"
finish() {
  cd /
  "$bin" umount --lazy "$base/cachebro" >/dev/null 2>&1 || true
  umount -l "$base/loopback" 2>/dev/null || fusermount3 -u -z "$base/loopback" 2>/dev/null || true
  for pid in $(grep -lzx "XDG_RUNTIME_DIR=$base/run" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3); do
    [ "$(readlink "/proc/$pid/exe" 2>/dev/null)" = "$bin" ] && kill "$pid" 2>/dev/null || true
  done
  sleep 0.5
  rm -rf "$base"
}
trap finish EXIT
trap 'exit 1' INT TERM
GOFLAGS=-buildvcs=false go build -o "$base/loop" github.com/hanwen/go-fuse/v2/example/loopback
mkdir "$base/native" "$base/source" "$base/loopback" "$base/cachebro"
cat >"$base/native/package.json" <<'J'
{"name":"packages","version":"1.0.0","private":true,
 "dependencies":{"typescript":"^5","eslint":"^9","webpack":"^5","date-fns":"^3","lodash":"^4"}}
J
echo node_modules >"$base/native/.gitignore"
(cd "$base/native" && npm install --package-lock --ignore-scripts >/dev/null)
printf '%s files, %s in node_modules; medians of %s runs\n' "$(find "$base/native/node_modules" -type f | wc -l)" "$(du -sh "$base/native/node_modules" | cut -f1)" "$runs"
tools="npm"
if command -v pnpm >/dev/null; then
  tools="npm pnpm"
  (cd "$base/native" && rm -rf node_modules && pnpm --store-dir "$base/pnpm" install --ignore-scripts >"$base/log" 2>&1) || { head -20 "$base/log" >&2; exit 1; }
fi
rm -rf "$base/native/node_modules"
for d in source cachebro; do cp -a "$base/native/." "$base/$d/"; done
"$base/loop" "$base/loopback" "$base/source" >/dev/null 2>&1 &
"$bin" mount "$base/cachebro" >/dev/null
until grep -q " $base/loopback fuse" /proc/mounts; do sleep 0.1; done

once() { # TOOL DIR: prints milliseconds
  (
    cd "$2"
    rm -rf node_modules
    sleep 2
    began=$(date +%s%N)
    if [ "$1" = npm ]; then
      npm ci --prefer-offline --ignore-scripts >"$base/log" 2>&1
    else
      pnpm --store-dir "$base/pnpm" install --frozen-lockfile --offline --ignore-scripts >"$base/log" 2>&1
    fi || { head -20 "$base/log" >&2; exit 1; }
    echo $((($(date +%s%N) - began) / 1000000))
  )
}
for tool in $tools; do
  for place in native loopback cachebro; do : >"$base/$place.ms"; done
  for _ in $(seq "$runs"); do
    for place in native loopback cachebro; do once "$tool" "$base/$place" >>"$base/$place.ms"; done
  done
  line="$tool"
  for place in native loopback cachebro; do
    line="$line  $place $(sort -n "$base/$place.ms" | sed -n "$(((runs + 1) / 2))p") ms"
  done
  echo "$line"
  for place in native source cachebro; do
    echo "  blocks of $place that no other place or store has: $(find "$base/$place/node_modules" -type f -links 1 -printf '%k\n' | awk '{s+=$1} END {printf "%.0f MB", s/1024}')"
  done
done
echo "history of it: $(du -sh "$base/state" | cut -f1)"
