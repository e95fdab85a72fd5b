package mounts

import (
	"os"
	"path"
	"strconv"
	"strings"

	"cachebro/store/leaf/procfs"

	"golang.org/x/sys/unix"
)

// Beside finds mounts that lead to the directory covered by the overlay on point, without going
// through the overlay. Examples are a bind mount, a container's volume, and a mount namespace made
// before the overlay. It recognises them by file system and directory, because their paths can be
// anything. Each mount is returned as a Proc that describes one process in the mount's namespace.
// Idle is set if no process in that namespace has anything in the project open. Beside does not
// find namespaces in which we may examine no process, or mounts on other machines.
func Beside(point string) []Proc {
	ours, err := Mounts()
	if err != nil {
		return nil
	}
	dev, place, ok := lowerPlace(ours, point)
	if !ok {
		return nil
	}
	own, _ := os.Readlink("/proc/self/ns/mnt")
	known := map[string]bool{own: true}
	type way struct {
		Proc
		namespace string
	}
	var found []way
	add := func(namespace string, pid int, paths []string) {
		st, _ := procfs.ReadStat(pid)
		for _, p := range paths {
			found = append(found, way{Proc{PID: pid, Start: st.Start, Comm: st.Comm, How: "mount", Path: p, Idle: true}, namespace})
		}
	}
	add(own, os.Getpid(), waysTo(ours, dev, place))
	for _, t := range eachProcess(func(pid int) (mountTable, bool) { return newTable(pid, known) }) {
		add(t.namespace, t.pid, waysTo(t.mounts, dev, place))
	}
	if len(found) == 0 {
		return nil
	}
	for _, used := range eachProcess(func(pid int) (used []int, any bool) {
		ns, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/ns/mnt")
		if err != nil {
			return nil, false
		}
		for i, w := range found {
			if w.namespace != ns {
				continue
			}
			if _, ok := uses(pid, w.Path, nil, false); ok {
				used = append(used, i)
			}
		}
		return used, len(used) > 0
	}) {
		for _, i := range used {
			found[i].Idle = false
		}
	}
	all := make([]Proc, len(found))
	for i, w := range found {
		all[i] = w.Proc
	}
	return all
}

// mountTable holds the mounts in the namespace of a process.
type mountTable struct {
	namespace string
	pid       int
	mounts    []Mount
}

// newTable returns the mounts that a process sees, and adds its namespace to known. It returns false
// for a known namespace and for a kernel thread, which opens no files by their paths.
func newTable(pid int, known map[string]bool) (mountTable, bool) {
	proc := "/proc/" + strconv.Itoa(pid)
	ns, err := os.Readlink(proc + "/ns/mnt")
	if err != nil || known[ns] {
		return mountTable{}, false
	}
	st, err := procfs.ReadStat(pid)
	if err != nil || st.Flags&procfs.KernelThread != 0 {
		return mountTable{}, false
	}
	mounts, err := readMounts(proc + "/mountinfo")
	if err != nil {
		return mountTable{}, false
	}
	known[ns] = true
	return mountTable{ns, pid, mounts}, true
}

// BesideSummary returns the mounts that Beside would find in one mount table, as a string that can
// be compared with a later result. It does not look at processes.
func BesideSummary(table []Mount, point string) (string, bool) {
	dev, place, ok := lowerPlace(table, point)
	if !ok {
		return "", false
	}
	ways := waysTo(table, dev, place)
	return strings.Join(ways, "\x00"), len(ways) > 0
}

// lowerPlace returns the file system of the directory that the overlay on point covers, and the
// directory's path in it.
func lowerPlace(table []Mount, point string) (dev, place string, ok bool) {
	over, ok := At(table, point)
	if !ok || over.Type != FSType {
		return "", "", false
	}
	for _, m := range table {
		if m.ID == over.Parent && Within(point, m.Point) {
			return m.Dev, transpose(point, m.Point, m.Root), true
		}
	}
	return "", "", false
}

// transpose converts p, a path in the directory from, into the corresponding path in the directory
// to.
func transpose(p, from, to string) string { return path.Join(to, p[min(len(p), len(from)):]) }

// waysTo finds the paths that lead to the directory place of the file system dev, or to a part of
// it, in a mount table.
func waysTo(mounts []Mount, dev, place string) (ways []string) {
	for _, m := range mounts {
		if m.Dev != dev {
			continue
		}
		at := m.Point
		switch {
		case Within(place, m.Root):
			at = transpose(place, m.Root, m.Point)
		case !Within(m.Root, place):
			continue
		}
		// A later mount at the same path or on a parent may hide m.
		if top, ok := Above(mounts, at); ok && top.ID == m.ID {
			ways = append(ways, at)
		}
	}
	return ways
}

// SeenBy returns the paths by which this process may reach what another process, with a mount table of
// its own, reaches by a path without symbolic links.
func SeenBy(pid int, path string) []string {
	theirs, err := readMounts("/proc/" + strconv.Itoa(pid) + "/mountinfo")
	if err != nil {
		return nil
	}
	ours, err := Mounts()
	m, ok := Above(theirs, path)
	if err != nil || !ok {
		return nil
	}
	return waysTo(ours, m.Dev, transpose(path, m.Point, m.Root))
}

// Shared returns the type of the file system of dir if other machines can change files on it,
// otherwise "".
func Shared(dir *os.File) string {
	var st unix.Statfs_t
	if unix.Fstatfs(int(dir.Fd()), &st) != nil {
		return ""
	}
	return map[uint32]string{
		unix.NFS_SUPER_MAGIC: "NFS", 0xff534d42: "SMB", 0xfe534d42: "SMB", unix.SMB_SUPER_MAGIC: "SMB", unix.V9FS_MAGIC: "9p", unix.CEPH_SUPER_MAGIC: "Ceph",
		unix.FUSE_SUPER_MAGIC: "FUSE", unix.AFS_SUPER_MAGIC: "AFS", 0x0bd00bd0: "Lustre", unix.OCFS2_SUPER_MAGIC: "OCFS2", 0x01161970: "GFS2",
	}[uint32(st.Type)]
}
