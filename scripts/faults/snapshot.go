//go:build linux

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// entry holds everything about one name in the tree, except times.
type entry struct {
	kind, mode uint32
	uid, gid   uint32
	content    string // hash of the content, or target of a link
	size       int64
	attrs      map[string]string // extended attributes other than access control lists
	acls       map[string]string
	ino        uint64
}

// snapshot is the state of a tree: its names, and which of them belong to the same file.
type snapshot struct {
	names map[string]entry
	files map[uint64][]string // the names of an inode in the tree, and those in .git
	git   map[string]uint64   // the inodes of the names in .git
}

// take records the tree in dir, and the inodes of the names in git.
func take(dir, git string) (*snapshot, error) {
	s := &snapshot{names: map[string]entry{}, files: map[uint64][]string{}, git: map[string]uint64{}}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && p != dir {
			return nil // the entry has vanished, because a process is still working here
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		e, err := look(p)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if e.kind != unix.S_IFDIR {
			s.files[e.ino] = append(s.files[e.ino], rel)
		}
		s.names[rel] = e
		return nil
	})
	if err != nil {
		return nil, err
	}
	list, err := os.ReadDir(git)
	if err != nil {
		return nil, err
	}
	for _, d := range list {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(git, d.Name()), &st); err != nil {
			return nil, err
		}
		s.files[st.Ino] = append(s.files[st.Ino], gitPrefix+d.Name())
		s.git[gitPrefix+d.Name()] = st.Ino
	}
	for ino := range s.files {
		slices.Sort(s.files[ino])
	}
	return s, nil
}

func look(p string) (entry, error) {
	var st unix.Stat_t
	if err := unix.Lstat(p, &st); err != nil {
		return entry{}, err
	}
	e := entry{kind: st.Mode & unix.S_IFMT, mode: st.Mode &^ unix.S_IFMT, uid: st.Uid, gid: st.Gid, ino: st.Ino, attrs: map[string]string{}, acls: map[string]string{}}
	switch e.kind {
	case unix.S_IFREG:
		b, err := os.ReadFile(p)
		if err != nil {
			return e, err
		}
		sum := sha256.Sum256(b)
		e.content, e.size = hex.EncodeToString(sum[:6]), int64(len(b))
	case unix.S_IFLNK:
		t, err := os.Readlink(p)
		if err != nil {
			return e, err
		}
		e.content = t
	}
	buf := make([]byte, 4096)
	n, err := unix.Llistxattr(p, buf)
	if err != nil && !errors.Is(err, unix.ENOTSUP) {
		return e, err
	}
	for _, name := range bytes.Split(buf[:max(n, 0)], []byte{0}) {
		if len(name) == 0 {
			continue
		}
		v := make([]byte, 4096)
		k, err := unix.Lgetxattr(p, string(name), v)
		if err != nil {
			return e, err
		}
		if strings.HasPrefix(string(name), "system.posix_acl") {
			e.acls[string(name)] = string(v[:k])
		} else {
			e.attrs[string(name)] = string(v[:k])
		}
	}
	return e, nil
}

// difference is one way in which a name differs from its expected state. also lists other names of
// the same file. A message about one of them reports the difference too.
type difference struct {
	what, path, text string
	also             []string
	once             []string // all names that the file ever had
	was, is          []string // for what = "links": the expected and the present names of the file that are compared
}

func (d difference) String() string { return fmt.Sprintf("%s of %s: %s", d.what, d.path, d.text) }

// differences compares two states of the tree, name by name.
func differences(want, now *snapshot) (all []difference) {
	names := map[string]bool{}
	for p := range want.names {
		names[p] = true
	}
	for p := range now.names {
		names[p] = true
	}
	for _, p := range slices.Sorted(maps.Keys(names)) {
		w, inWant := want.names[p]
		n, inNow := now.names[p]
		add := func(what, format string, args ...any) {
			all = append(all, difference{what: what, path: p, text: fmt.Sprintf(format, args...), also: want.others(p)})
		}
		switch {
		case !inNow:
			add("absence", "was %s", kinds[w.kind])
			continue
		case !inWant:
			add("presence", "a %s", kinds[n.kind])
			continue
		case w.kind != n.kind:
			add("kind", "%s, was %s", kinds[n.kind], kinds[w.kind])
			continue
		}
		if w.content != n.content || w.size != n.size {
			add("content", "%s (%d), was %s (%d)", n.content, n.size, w.content, w.size)
		}
		if w.mode != n.mode && w.kind != unix.S_IFLNK {
			add("mode", "%04o, was %04o", n.mode, w.mode)
		}
		if w.uid != n.uid || w.gid != n.gid {
			add("owner", "%d:%d, was %d:%d", n.uid, n.gid, w.uid, w.gid)
		}
		if !maps.Equal(w.attrs, n.attrs) {
			add("xattr", "%q, was %q", n.attrs, w.attrs)
		}
		if !maps.Equal(w.acls, n.acls) {
			add("acl", "%x, was %x", n.acls, w.acls)
		}
		if w.kind != unix.S_IFDIR {
			was, is := counted(want.files[w.ino], now.files[n.ino], want, now)
			if !slices.Equal(was, is) {
				all = append(all, difference{what: "links", path: p, text: fmt.Sprintf("%q, was %q", is, was), also: append(slices.Clone(was), is...), was: was, is: is})
			}
		}
	}
	return all
}

// others returns the names of the file at a path, if it has several.
func (s *snapshot) others(p string) []string {
	if e, ok := s.names[p]; ok && e.kind != unix.S_IFDIR && len(s.files[e.ino]) > 1 {
		return s.files[e.ino]
	}
	return nil
}

// inSameDir returns the path that a name has in s, in the directory that contains the name at path p in
// other. It returns "" if that directory does not exist in s.
func (s *snapshot) inSameDir(other *snapshot, p string) string {
	dir, ok := other.names[filepath.Dir(p)]
	if !ok {
		return ""
	}
	for q, e := range s.names {
		if e.kind == unix.S_IFDIR && e.ino == dir.ino {
			return filepath.Join(q, filepath.Base(p))
		}
	}
	return ""
}

var kinds = map[uint32]string{unix.S_IFREG: "file", unix.S_IFDIR: "directory", unix.S_IFLNK: "symlink", unix.S_IFIFO: "pipe"}

// counted returns those of a file's expected names (was) and present names (is) that are compared.
// A name in .git is compared only if it leads to the same file as before, because cachebro makes
// and removes nothing in .git.
func counted(was, is []string, want, now *snapshot) (w, n []string) {
	counts := func(n string) bool {
		return !strings.HasPrefix(n, gitPrefix) || want.git[n] != 0 && want.git[n] == now.git[n]
	}
	w = slices.DeleteFunc(slices.Clone(was), func(n string) bool { return !counts(n) })
	n = slices.DeleteFunc(slices.Clone(is), func(n string) bool { return !counts(n) || strings.HasPrefix(n, gitPrefix) && !slices.Contains(was, n) })
	return w, n
}
