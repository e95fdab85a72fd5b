package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"cachebro/store/leaf/text"
)

func (w *worker) create(content []byte) error {
	if w.prepared {
		return w.makePrepared(content)
	}
	made := false
	// With O_APPEND, data that another process appends at the same time is preserved before or
	// after this content.
	err := w.finish(w.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, content, nil, &made)
	switch {
	case errors.Is(err, fs.ErrExist) && w.plan.Resume && w.begun(content, false):
		return w.write(content)
	case errors.Is(err, fs.ErrExist) && !made:
		return fmt.Errorf("exists again: %w", errChanged)
	case err != nil && made:
		_ = w.root.Remove(w.name)
	}
	return err
}

// begun reports whether the file holds only the beginning of content because a process was killed
// while writing it. The file must not be older than the plan, except by a second, because the
// kernel's clock for files is slightly behind. kept says whether the file must be one that is written in
// place (see keepsFile). resultExists handles a file with the whole content.
func (w *worker) begun(content []byte, kept bool) bool {
	fi, err := w.root.Lstat(w.name)
	if err != nil || !fi.Mode().IsRegular() || w.keepsFile(fi) != kept {
		return false
	}
	if fi.Size() >= int64(len(content)) || fi.ModTime().Before(w.plan.Begun.Add(-time.Second)) {
		return false
	}
	have, err := w.hash(fi)
	return err == nil && have == text.Hash(content[:fi.Size()])
}

// filled reports whether a killed process may have written the beginning of the file in place.
func (w *worker) filled() bool {
	if !w.plan.Resume || w.step.Do != "write" || w.step.Apart {
		return false
	}
	fi, err := w.root.Lstat(w.name)
	return err == nil && w.keepsFile(fi)
}

// keepsFile reports whether a file is written in place, because it has other names or belongs to
// somebody else. Any file that replaces it would belong to this user.
func (w *worker) keepsFile(fi fs.FileInfo) bool { return links(fi) > 1 || w.othersFile(fi) }

// othersFile reports whether a file belongs to another user, and has the owner and the mode that it
// should get. This user may change neither of them.
func (w *worker) othersFile(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() == 0 || int(st.Uid) == os.Geteuid() {
		return false
	}
	if w.step.Owned && w.step.UID != st.Uid {
		return false
	}
	return w.step.Mode == 0 || mode(w.step.Mode) == fi.Mode()
}

// stamp sets the time of a file that a killed process has written completely.
func (w *worker) stamp() error {
	if w.step.Do != "write" || w.step.Mtime == 0 || w.root == nil {
		return nil
	}
	if fi, err := w.root.Lstat(w.name); err != nil || !fi.Mode().IsRegular() || !w.isSo() || fi.ModTime().UnixNano() == w.step.Mtime {
		return nil // the result of a later step exists
	}
	return w.root.Chtimes(w.name, time.Time{}, time.Unix(0, w.step.Mtime))
}

func (w *worker) write(content []byte) error {
	old, err := w.root.Lstat(w.name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if old != nil && old.IsDir() {
		return fmt.Errorf("is a directory: %w", errChanged)
	}
	isFile := old != nil && old.Mode().IsRegular()
	if isFile && (w.inPlace || w.keepsFile(old) && !w.step.Apart) {
		return w.fill(content, old)
	}
	tmp := w.temporary()
	if err := w.finish(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, content, old, new(bool)); err != nil {
		_ = w.root.Remove(tmp)
		return err
	}
	if err := w.replace(tmp); err != nil {
		_ = w.root.Remove(tmp)
		return err
	}
	return nil
}

// finish writes name completely, in the order owner, content, attributes, mode, time. The order
// matters, because changing the owner clears set-user-id bits and writing changes the time. The
// mode is usually set at creation, because a chmod would make one more version. Nobody else may
// open a file with set-id bits before it is complete. made is set once the file was opened.
func (w *worker) finish(name string, flag int, content []byte, old fs.FileInfo, made *bool) error {
	m := mode(w.step.Mode)
	if w.step.Mode == 0 {
		m = 0o644
		if old != nil {
			m = old.Mode()
		}
	}
	fresh, perm := flag&os.O_EXCL != 0, m.Perm()
	if m&setID != 0 {
		perm &= 0o700
	}
	var f *os.File
	var err error
	if fresh { // O_EXCL does not follow a link
		f, err = w.places.makeIn(w.root, name, flag, perm)
	} else {
		f, err = openIn(w.root, name, flag&^os.O_TRUNC)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	*made = true
	// The stat costs no round trip here, because the kernel has just received the attributes.
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	h, err := w.setOwner(f, fi, old, fresh)
	if err != nil {
		return err
	}
	if flag&os.O_TRUNC != 0 {
		if fi.Mode()&setID != 0 { // the set-id bits must never apply to this content
			if err := f.Chmod(fi.Mode() & bits &^ setID); err != nil {
				return err
			}
			h.mode &^= setID
		}
		if err := f.Truncate(0); err != nil {
			return err
		}
	}
	if _, err := f.Write(content); err != nil {
		return err
	}
	set, known := w.wanted(old != nil && name != w.name)
	changed := w.attributes(f, set, known, fresh && !(known && w.inherits()))
	m = w.allowedMode(h, m)
	if h.mode&bits != m&bits || changed { // an ACL changes the mode
		if err := f.Chmod(m & bits); err != nil {
			return err
		}
	}
	w.capable(f, h, set)
	if w.step.Mtime != 0 { // before the close, so that the version has the time too
		err := setMtime(w.root, f, w.step.Mtime)
		if errors.Is(err, fs.ErrPermission) {
			w.left = append(w.left, fmt.Sprintf("its time could not be restored (%s)", reason(err)))
		} else if err != nil {
			return err
		}
	}
	return f.Close()
}

func links(fi fs.FileInfo) uint64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 1
}

// perm returns a file's permission bits as in st_mode, with special bits.
func perm(fi fs.FileInfo) uint32 { return uint32(fi.Mode().Perm()) | special(fi.Mode()) }

// kindOf returns a file's type as in st_mode.
func kindOf(fi fs.FileInfo) uint32 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return uint32(st.Mode) & syscall.S_IFMT
	}
	return 0
}

// sameInode reports whether a file has an inode number from a plan, which is the number in the
// source directory. On a mount, the number of a file of another device has that device's number in
// the bits above the lowest 40 (package fusefs, inode.go).
func sameInode(fi fs.FileInfo, number uint64) bool {
	const ofSource = 1<<40 - 1
	return inode(fi)&ofSource == number&ofSource
}

func inode(fi fs.FileInfo) uint64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Ino)
	}
	return 0
}

// mode converts the permission bits of st_mode, with special bits, to Go's.
func mode(st uint32) fs.FileMode {
	m := fs.FileMode(st & 0o777)
	for bit, goBit := range map[uint32]fs.FileMode{syscall.S_ISUID: fs.ModeSetuid, syscall.S_ISGID: fs.ModeSetgid, syscall.S_ISVTX: fs.ModeSticky} {
		if st&bit != 0 {
			m |= goBit
		}
	}
	return m
}

func special(m fs.FileMode) (st uint32) {
	for bit, goBit := range map[uint32]fs.FileMode{syscall.S_ISUID: fs.ModeSetuid, syscall.S_ISGID: fs.ModeSetgid, syscall.S_ISVTX: fs.ModeSticky} {
		if m&goBit != 0 {
			st |= bit
		}
	}
	return st
}
