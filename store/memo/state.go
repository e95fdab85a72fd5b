package memo

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Kinds of files.
const (
	absent  = "absent"
	file    = "file"
	dir     = "dir"
	link    = "link"
	special = "special" // FIFO, socket, device
	kernel  = "kernel"  // something that the kernel reports, see kernelSays
)

// stat is the result of lstat without the device number, which changes with every mount.
type stat struct {
	Kind  string `cbor:"1,keyasint,omitempty"`
	Ino   uint64 `cbor:"2,keyasint,omitempty"`
	Mode  uint32 `cbor:"3,keyasint,omitempty"`
	Size  int64  `cbor:"4,keyasint,omitempty"`
	Mtime int64  `cbor:"5,keyasint,omitempty"`
	Ctime int64  `cbor:"6,keyasint,omitempty"`
	UID   uint32 `cbor:"7,keyasint,omitempty"`
	GID   uint32 `cbor:"8,keyasint,omitempty"`
	Links uint64 `cbor:"9,keyasint,omitempty"`
	Atime int64  `cbor:"10,keyasint,omitempty"`
}

// look returns the stat of a path without following symlinks. A path that this process may not
// access counts as absent, because every process with the same rights gets the same result.
func look(path string) stat {
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		return stat{Kind: absent}
	}
	s := stat{Ino: st.Ino, Mode: uint32(st.Mode), Size: st.Size, UID: st.Uid, GID: st.Gid, Links: uint64(st.Nlink)}
	s.Mtime, s.Ctime, s.Atime = times(&st)
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFREG:
		s.Kind = file
	case syscall.S_IFDIR:
		s.Kind, s.Size = dir, 0
	case syscall.S_IFLNK:
		s.Kind = link
	default:
		s.Kind = special
	}
	return s
}

// stable reports whether any change after the stat was taken will show in its times. Two changes
// within one tick of the file system's clock have the same time.
func (s stat) stable(taken time.Time) bool {
	return s.Ctime < taken.Add(-50*time.Millisecond).UnixNano()
}

// sameInode reports whether two stats show the same unchanged inode. It ignores the access time.
func (s stat) sameInode(o stat) bool {
	s.Atime = o.Atime
	return s == o
}

// hashFile returns the content's SHA-256 in hex, or "" if it cannot be read.
func hashFile(path string) string {
	f, err := openQuietly(path, syscall.O_NONBLOCK|syscall.O_NOFOLLOW)
	if err != nil {
		return ""
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}

// maxOrdered limits the names of a directory whose order is compared. fts(3), which grep uses,
// does not keep the directory's order if there are more names.
const maxOrdered = 10_000

// hashNames returns a hash of a directory's names and types. If ordered is set, it hashes them in
// the kernel's order, otherwise sorted. It returns "" if the directory cannot be listed, or if
// ordered is set and there are maxOrdered names or more.
func hashNames(path string, ordered bool) string {
	d, err := openQuietly(path, 0)
	if err != nil {
		return ""
	}
	defer d.Close()
	entries, err := d.ReadDir(-1)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if ordered && len(entries) >= maxOrdered {
		return ""
	}
	if !ordered {
		slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	}
	h := sha256.New()
	for _, e := range entries {
		h.Write([]byte(e.Name()))
		h.Write([]byte{0, byte(e.Type() >> 24), byte(e.Type() >> 16)})
	}
	return hex.EncodeToString(h.Sum(nil))
}

// unameOf represents the answer of uname(2) among the files that the kernel generates.
const unameOf = "/proc/uname"

// stableFile reports whether a file that the kernel generates changes only when somebody changes
// the machine. Its content is then compared.
func stableFile(path string) bool {
	switch path {
	case "/proc/filesystems", "/proc/version", "/proc/self/cgroup", "/proc/self/mountinfo":
		return true
	}
	for _, d := range []string{"/proc/sys", "/sys/devices/system/cpu", "/sys/kernel/mm", "/sys/fs/cgroup"} {
		if under(path, d) {
			return !strings.HasSuffix(path, ".stat") && !strings.HasSuffix(path, ".current")
		}
	}
	return false
}

// Seen is one path that a command accessed or left behind. It says what must be unchanged for the
// output to be the same.
type Seen struct {
	// Path is relative to the project if Inside is set, otherwise absolute.
	Path   string `cbor:"1,keyasint"`
	Inside bool   `cbor:"2,keyasint,omitempty"`
	Stat   stat   `cbor:"3,keyasint"`
	// Hash is the hash of the content or names, or the target of a link. It is "" if these do not
	// matter.
	Hash string `cbor:"4,keyasint,omitempty"`
	// Times means that everything in Stat matters except the access time.
	Times bool `cbor:"5,keyasint,omitempty"`
	// Dated means that the modification time matters.
	Dated bool `cbor:"9,keyasint,omitempty"`
	// Ordered means that the order of a listing matters.
	Ordered bool `cbor:"10,keyasint,omitempty"`
	// By is the program that may show the times or the order.
	By string `cbor:"11,keyasint,omitempty"`
	// Access means that the access time matters.
	Access bool `cbor:"8,keyasint,omitempty"`
	// Racy means that Stat was taken so soon after a change that it may miss the next one. The
	// content must then be compared.
	Racy bool `cbor:"6,keyasint,omitempty"`
	// Made means that the command created the path.
	Made bool `cbor:"7,keyasint,omitempty"`
}

// content returns the hash of what has to be compared for a path of this kind.
func (s *Seen) content(path string) string {
	switch s.Stat.Kind {
	case file:
		return hashFile(path)
	case dir:
		return hashNames(path, s.Ordered)
	case link:
		to, _ := os.Readlink(path)
		return to
	}
	return ""
}

// shownBy names the program that may show the times of a path.
func (s *Seen) shownBy() string {
	if s.By == "" {
		return ""
	}
	return ", which " + s.By + " may show (--ignore-times)"
}

// holds reports whether the path is as recorded. hadToRead reports whether the path had to be read.
// why describes the difference.
func (s *Seen) holds(path string) (ok, hadToRead bool, why string) {
	if s.Stat.Kind == kernel {
		return kernelSays(path) == s.Hash, false, "has another value"
	}
	now := look(path)
	switch {
	case s.Access && now.Atime != s.Stat.Atime:
		return false, false, "has another access time" + s.shownBy()
	case now.Kind != s.Stat.Kind && s.Stat.Kind == absent:
		return false, false, "did not exist and exists now"
	case now.Kind != s.Stat.Kind && now.Kind == absent:
		return false, false, "is gone"
	case now.Kind != s.Stat.Kind:
		return false, false, "was a " + s.Stat.Kind + " and is a " + now.Kind
	case now.Kind == absent:
		return true, false, ""
	case now.sameInode(s.Stat) && !s.Racy:
		return true, false, ""
	case now.Mode != s.Stat.Mode:
		return false, false, "has another mode"
	case now.UID != s.Stat.UID || now.GID != s.Stat.GID:
		return false, false, "has another owner"
	case s.Hash != "" && s.Stat.Kind == file && now.Size != s.Stat.Size:
		return false, false, "has changed"
	case s.Dated && now.Mtime != s.Stat.Mtime, s.Times && (now.Mtime != s.Stat.Mtime || now.Size != s.Stat.Size):
		return false, false, "has another modification time" + s.shownBy()
	case s.Times && !now.sameInode(s.Stat):
		return false, false, "has another inode, link count or change time" + s.shownBy()
	case s.Hash == "":
		// Only existence matters, but a device must be the same one.
		return s.Stat.Kind != special || now.Ino == s.Stat.Ino, false, "is another one"
	case s.Stat.Kind == file && now.Size != s.Stat.Size:
		return false, false, "has changed"
	case s.content(path) != s.Hash:
		return false, true, map[string]string{file: "has changed", dir: "lists other names", link: "points elsewhere"}[s.Stat.Kind]
	}
	return true, true, ""
}
