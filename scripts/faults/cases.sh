#!/bin/sh
# Tests cases in which something goes wrong around a mount, one after the other, with the finished
# binary. Prints "ok" for each case, or "FAILED" with the reason, and ends with status 1 if any case
# failed. Needs root for loop devices and bind mounts.
# Usage: cases.sh CACHEBRO [CASE…]
set -u
cb=$(realpath "$1")
shift
base=$(mktemp -d "${TMPDIR:-/tmp}/cachebro-cases.XXXXXX")
export XDG_STATE_HOME="$base/state" XDG_RUNTIME_DIR="$base/run" HOME="$base/home" GIT_CONFIG_GLOBAL=/dev/null
mkdir -m 700 "$base/state" "$base/run" "$base/home"
p="$base/project"
failed=0
why=

fail() { why="$why; $*"; }
# pid SUB: prints the pids of this test's cachebro processes that run the sub-command SUB, or of all
# of them if SUB is "any".
pid() {
	for d in /proc/[0-9]*; do
		[ "$(readlink "$d/exe" 2>/dev/null)" = "$cb" ] || continue
		tr '\0' '\n' <"$d/environ" 2>/dev/null | grep -qx "XDG_RUNTIME_DIR=$XDG_RUNTIME_DIR" || continue
		[ "$1" = any ] || [ "$(tr '\0' '\n' <"$d/cmdline" 2>/dev/null | sed -n 2p)" = "$1" ] || continue
		echo "${d#/proc/}"
	done
}
# within SECONDS COMMAND…: succeeds if the command succeeds within this time.
within() {
	n=$(($1 * 20))
	shift
	while ! "$@"; do
		n=$((n - 1))
		[ $n -gt 0 ] || return 1
		sleep 0.05
	done
}
is_mounted() { grep -q " $1 fuse.cachebro " /proc/mounts; }
not_mounted() { ! is_mounted "$1"; }
up() { "$cb" mount "$p" >"$base/out" 2>&1 || fail "mount: $(cat "$base/out")"; }
down() {
	if is_mounted "$p"; then "$cb" umount "$p" >"$base/out" 2>&1 || fail "umount: $(cat "$base/out")"; fi
	for n in $(pid any); do kill -CONT "$n" 2>/dev/null; kill "$n" 2>/dev/null; done
	within 15 no_processes || { fail "left running: $(pid any | tr '\n' ' ')"; for n in $(pid any); do kill -9 "$n"; done; }
	is_mounted "$p" && umount -l "$p"
	return 0
}
no_processes() { [ -z "$(pid any)" ]; }
shown() { [ "$("$cb" show --dir "$p" "$p/$1" 2>/dev/null)" = "$2" ]; }
# all_logged HASHES: succeeds if the log has a version for each hash in the file HASHES.
all_logged() {
	"$cb" log --json --baselines --limit 100000 -- "$p" 2>/dev/null >"$base/log" || return 1
	for h in $(cat "$1"); do grep -q "$h" "$base/log" || return 1; done
}

case_suspend() { # the daemon is stopped for 5 s: no write takes longer than about 2 s, and nothing is lost
	up
	d=$(pid daemon)
	kill -STOP "$d"
	: >"$base/hashes"
	worst=0
	i=0
	end=$(($(date +%s) + 5))
	while [ "$(date +%s)" -lt $end ]; do
		i=$((i + 1))
		t=$(date +%s%N)
		echo "suspended $i" >"$p/s$((i % 5)).txt" || fail "write $i"
		t=$((($(date +%s%N) - t) / 1000000))
		[ $t -le $worst ] || worst=$t
		sha256sum <"$p/s$((i % 5)).txt" | cut -c1-64 >>"$base/hashes"
	done
	kill -CONT "$d"
	[ $worst -le 2100 ] || fail "a write took $worst ms"
	within 20 all_logged "$base/hashes" || fail "some of $i contents are not in the log"
	note="$i writes, the slowest $worst ms"
}

case_state_deleted() { # the state directory is deleted while everything is running
	up
	echo before >"$p/a.txt"
	rm -rf "$base"/state/*
	for i in 1 2 3 4 5; do
		echo "after $i" >"$p/a.txt" || fail "write $i failed"
		[ "$(cat "$p/a.txt")" = "after $i" ] || fail "read $i differs"
		sleep 0.3
	done
	"$cb" status --dir "$p" >"$base/out" 2>&1
	note=$(grep -iE 'state|gone|deleted|gap|stopped' "$base/out" | head -1)
	within 10 not_mounted "$p" || fail "the mount does not end"
	[ "$(cat "$p/a.txt")" = "after 5" ] || fail "the file is not as written"
	for n in $(pid any); do kill "$n"; done
	within 10 no_processes || fail "the daemon does not end"
	up
	echo again >"$p/a.txt"
	within 10 shown a.txt again || fail "a new history does not begin"
}

case_project_full() { # the project's own file system fills up
	truncate -s 60M "$base/project.img"
	mkfs.ext4 -q -m 0 "$base/project.img" && mount -o loop "$base/project.img" "$p" || { fail "no loop mount"; return; }
	loop=1
	up
	echo kept >"$p/small.txt"
	files=0
	while head -c 4000000 /dev/urandom >"$p/big$files" 2>/dev/null; do files=$((files + 1)); [ $files -lt 40 ] || break; done
	[ $files -lt 40 ] || fail "the disk did not fill"
	echo changed >"$p/small.txt" 2>/dev/null
	[ "$(cat "$p/small.txt")" = changed ] || [ ! -s "$p/small.txt" ] || fail "small.txt is neither"
	rm "$p"/big*
	echo resumed >"$p/small.txt" || fail "no write after room was made"
	within 10 shown small.txt resumed || fail "not captured after room was made"
	within 10 grep_log small.txt kept || fail "the content from before is not in the log"
	note="full after $files files of 4 MB"
}
grep_log() { "$cb" log --json --baselines -- "$p/$1" 2>/dev/null | grep -q "$(echo "$2" | sha256sum | cut -c1-64)"; }

case_read_only() { # the source cannot be written to
	echo text >"$p/r.txt"
	mount --bind "$p" "$p" && mount -o remount,ro,bind "$p" || { fail "no bind mount"; return; }
	loop=1
	up
	[ "$(cat "$p/r.txt")" = text ] || fail "cannot be read"
	# Each shell words the message differently, but the system's part of it contains "read-only".
	if (echo x >"$p/r.txt") 2>"$base/out"; then fail "a write succeeded"; fi
	grep -qi 'read-only' "$base/out" || fail "a write says $(cat "$base/out")"
	within 10 shown r.txt text || fail "the content is not known"
}

case_several() { # two projects, a worktree inside a project, and nested mounts
	q="$base/second"
	mkdir "$q"
	(cd "$p" && git init -q . && echo one >f && git add f && git -c user.name=t -c user.email=t@example.org commit -qm one && git worktree add -q wt) || fail "git"
	up
	"$cb" mount "$q" >"$base/out" 2>&1 || fail "second: $(cat "$base/out")"
	echo two >"$p/f"
	echo other >"$q/g"
	echo three >"$p/wt/f"
	within 10 shown f two || fail "first project"
	[ "$(git -C "$p/wt" status --porcelain)" = " M f" ] || fail "git in the worktree: $(git -C "$p/wt" status --porcelain 2>&1)"
	[ "$("$cb" show "$q/g" 2>&1)" = other ] || fail "second project"
	if "$cb" mount --exact "$p/wt" >"$base/out" 2>&1; then fail "a nested mount was made"; "$cb" umount "$p/wt"; fi
	grep -q '^hint:' "$base/out" || fail "a nested mount has no hint: $(cat "$base/out")"
	note=$(head -1 "$base/out")
	mkdir -p "$base/outer/in"
	"$cb" mount "$base/outer/in" >/dev/null 2>&1 || fail "inner mount"
	if "$cb" mount "$base/outer" >"$base/out" 2>&1; then fail "a mount around another was made"; "$cb" umount "$base/outer"; fi
	"$cb" umount "$base/outer/in" >/dev/null 2>&1 || fail "umount inner"
	"$cb" umount "$q" >/dev/null 2>&1 || fail "umount second"
}

case_signals() { # HUP does not end the mount, TERM and INT end it in an orderly way
	for sig in TERM INT; do
		up
		m=$(pid mountd)
		kill -HUP "$m"
		sleep 0.2
		is_mounted "$p" || fail "HUP ended the mount"
		echo "before $sig" >"$p/t.txt"
		kill -$sig "$m"
		within 5 not_mounted "$p" || fail "$sig did not unmount"
		[ "$(cat "$p/t.txt")" = "before $sig" ] || fail "file after $sig"
		within 10 shown t.txt "before $sig" || fail "what was closed before $sig is not in the log"
	done
}

case_busy() { # unmount while a process is inside
	up
	(cd "$p" && exec sleep 30) &
	sleeper=$!
	sleep 0.3
	if "$cb" umount "$p" >"$base/out" 2>&1; then fail "a busy mount was unmounted"; fi
	grep -q "$sleeper" "$base/out" || fail "does not name pid $sleeper: $(cat "$base/out")"
	"$cb" umount --lazy "$p" >"$base/out" 2>&1 || fail "--lazy: $(cat "$base/out")"
	not_mounted "$p" || fail "--lazy left it mounted"
	kill $sleeper
	wait $sleeper 2>/dev/null
}

case_all_killed() { # every cachebro process is killed at once, and the next mount cleans up
	up
	echo synced >"$p/k.txt"
	sync -f "$p/k.txt"
	kill -9 $(pid any)
	up
	[ "$(cat "$p/k.txt")" = synced ] || fail "the file is not as written"
	within 10 shown k.txt synced || fail "not in the log"
}

[ $# -gt 0 ] || set -- suspend state_deleted project_full read_only several signals busy all_killed
for c in "$@"; do
	why= note= loop=
	mkdir -p "$p"
	"case_$c"
	down
	[ -z "$loop" ] || umount "$p" || umount -l "$p"
	rm -rf "$base"/state/* "$base"/run/* "$p" "$base/second" "$base/outer" "$base/project.img"
	if [ -z "$why" ]; then echo "ok      $c ${note:+($note)}"; else
		echo "FAILED  $c${why#;}"
		failed=1
	fi
done
rm -rf "$base"
exit $failed
