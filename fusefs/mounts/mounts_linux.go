package mounts

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"cachebro/store/leaf/cmdline"
	"cachebro/store/leaf/loop"
	"cachebro/store/leaf/procfs"

	"golang.org/x/sys/unix"
)

// Mounts reads this process's mount table.
func Mounts() ([]Mount, error) { return readMounts("/proc/self/mountinfo") }

func readMounts(file string) ([]Mount, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	return parseMounts(string(b)), nil
}

// parseMounts parses mountinfo as described in proc(5): "36 35 98:0 /root /point rw - type source
// options", with any number of optional fields before the dash.
func parseMounts(text string) []Mount {
	var all []Mount
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		dash := -1
		for i := 6; i < len(f); i++ {
			if f[i] == "-" {
				dash = i
				break
			}
		}
		if dash < 0 || len(f) < dash+3 {
			continue
		}
		m := Mount{Dev: f[2], Root: unescape(f[3]), Point: unescape(f[4]), Type: unescape(f[dash+1]), Source: unescape(f[dash+2]), UID: -1}
		m.ID, _ = strconv.Atoi(f[0])
		m.Parent, _ = strconv.Atoi(f[1])
		if len(f) > dash+3 {
			for o := range strings.SplitSeq(f[dash+3], ",") {
				if v, ok := strings.CutPrefix(o, "user_id="); ok {
					m.UID, _ = strconv.Atoi(v)
				}
			}
		}
		all = append(all, m)
	}
	return all
}

// unescape decodes octal escapes such as \040.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// Table is the mount table of this mount namespace. It can be watched for changes.
type Table struct{ fd int }

// WatchTable begins to watch the mount table for changes.
func WatchTable() (*Table, error) {
	// Do not use os.Open, because Go's own poller would consume the notifications.
	fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("watch the mount table: %w", err)
	}
	return &Table{fd}, nil
}

// Wait returns when something has been mounted or unmounted since the last call of Wait, or since
// WatchTable. It occupies a thread.
func (t *Table) Wait() error {
	fds := []unix.PollFd{{Fd: int32(t.fd), Events: unix.POLLPRI}}
	_, err := loop.RetryValue(func() (int, error) { return unix.Poll(fds, -1) })
	return err
}

// Close ends the watch. It must not be called during a Wait.
func (t *Table) Close() { unix.Close(t.fd) }

// Holder is another mount namespace with a copy of a mount.
type Holder struct {
	Namespace string // "mnt:[4026531841]"
	PID       int    // of a process in it
	Command   string // shortened and without secrets
	Users     []Proc // processes with something open in the copy
}

// Holders finds other mount namespaces with a copy of the mount dev, and the processes that use it.
// It does not find namespaces in which we may examine no process.
func Holders(dev string) []Holder {
	own, _ := os.Readlink("/proc/self/ns/mnt")
	known := map[string]map[int]bool{own: {}} // ids of the copies, by namespace
	var found []Holder
	for _, h := range eachProcess(func(pid int) (h Holder, ok bool) {
		proc := "/proc/" + strconv.Itoa(pid)
		ns, err := os.Readlink(proc + "/ns/mnt")
		if err != nil {
			return h, false
		}
		ids, ok := known[ns]
		if !ok {
			mounts, err := readMounts(proc + "/mountinfo")
			if err != nil {
				return h, false // the process has ended, but another process may be in that namespace
			}
			ids = map[int]bool{}
			for _, m := range mounts {
				if m.Dev == dev && m.Type == FSType {
					ids[m.ID] = true
				}
			}
			known[ns] = ids
		}
		if len(ids) == 0 {
			return h, false
		}
		h = Holder{Namespace: ns, PID: pid}
		if p, ok := uses(pid, "/", ids, true); ok {
			h.Users = []Proc{p}
		}
		return h, true
	}) {
		at := slices.IndexFunc(found, func(f Holder) bool { return f.Namespace == h.Namespace })
		if at < 0 {
			h.Command = cmdline.Show(cmdline.Mask(procfs.Args(h.PID)), 80)
			found = append(found, h)
		} else {
			found[at].Users = append(found[at].Users, h.Users...)
		}
	}
	return found
}

// dead returns false. On Linux, statfs(2) itself fails on a mount that no process serves.
func dead(*syscall.Statfs_t) bool { return false }
