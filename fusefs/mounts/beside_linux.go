package mounts

import (
	"os"
	"path"
	"strconv"

	"cachebro/store/leaf/procfs"

	"golang.org/x/sys/unix"
)

// Beside finds mounts that lead to the directory below the overlay on point without
// leading through the overlay: a bind mount, a container's volume, a mount namespace
// made before the overlay. A path does not show this; the file system and the place
// in it do. Each mount is named by one process that has it. A namespace without
// processes, or with none that we may examine, is not seen, nor is another machine.
func Beside(point string) []Proc {
	ours, err := Mounts()
	if err != nil {
		return nil
	}
	dev, place, ok := under(ours, point)
	if !ok {
		return nil
	}
	own, _ := os.Readlink("/proc/self/ns/mnt")
	var found []Proc
	add := func(mounts []Mount, pid int) bool {
		way, ok := wayTo(mounts, dev, place)
		if ok {
			st, _ := procfs.ReadStat(pid)
			found = append(found, Proc{PID: pid, Start: st.Start, Comm: st.Comm, How: "mount", Path: way})
		}
		return ok
	}
	add(ours, os.Getpid())
	known := map[string]bool{own: true}
	type table struct {
		pid    int
		mounts []Mount
	}
	for _, t := range eachProcess(func(pid int) (table, bool) {
		proc := "/proc/" + strconv.Itoa(pid)
		ns, err := os.Readlink(proc + "/ns/mnt")
		if err != nil || known[ns] {
			return table{}, false
		}
		mounts, err := readMounts(proc + "/mountinfo")
		if err != nil {
			return table{}, false
		}
		known[ns] = true
		return table{pid, mounts}, true
	}) {
		add(t.mounts, t.pid)
	}
	return found
}

// WayBeside is what Beside would name of one mount table; it looks at nothing else.
func WayBeside(table []Mount, point string) (string, bool) {
	dev, place, ok := under(table, point)
	if !ok {
		return "", false
	}
	return wayTo(table, dev, place)
}

// under names the directory below the overlay on point: its file system, and the
// place in it.
func under(table []Mount, point string) (dev, place string, ok bool) {
	over, ok := At(table, point)
	if !ok || over.Type != FSType {
		return "", "", false
	}
	for _, m := range table {
		if m.ID == over.Parent && Within(point, m.Point) {
			return m.Dev, moved(point, m.Point, m.Root), true
		}
	}
	return "", "", false
}

// moved is the path in the directory to of what p is in the directory from.
func moved(p, from, to string) string { return path.Join(to, p[min(len(p), len(from)):]) }

// wayTo finds a path at which a mount table shows a directory of the file
// system dev, or a part of it.
func wayTo(mounts []Mount, dev, place string) (string, bool) {
	for _, m := range mounts {
		if m.Dev != dev {
			continue
		}
		at := m.Point
		switch {
		case Within(place, m.Root):
			at = moved(place, m.Root, m.Point)
		case !Within(m.Root, place):
			continue
		}
		// What was mounted later, or further down, hides it.
		if top, ok := Above(mounts, at); ok && top.ID == m.ID {
			return at, true
		}
	}
	return "", false
}

// Shared names the kind of file system that dir is on if others may change it
// without this machine knowing; "" if not.
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
