package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"cachebro/store/leaf/attrs"
)

// A file gets the owner of the version that comes back, and the set-id bits only
// together with that owner. A mode without its owner would lend the rights of whoever
// applies the plan to a content that somebody else has written.

const (
	setID = fs.ModeSetuid | fs.ModeSetgid
	bits  = fs.ModePerm | setID | fs.ModeSticky
)

// holder says whose a file is by now, as far as that is the step's.
type holder struct {
	uid, gid bool // it is the owner, the group that the step names
	fresh    bool // nobody else can have had it open
	mode     fs.FileMode
}

// whose the file is to be: the step's owner, or when root takes something back for
// a user, that of the file that is replaced, else of its directory. False: nobody's
// in particular.
func (w *worker) whose(old fs.FileInfo) (uid, gid int, ok bool) {
	if w.step.Owned {
		return int(w.step.UID), int(w.step.GID), true
	}
	st := w.owned
	if st == nil {
		return 0, 0, false // not root, who alone may
	}
	if old != nil {
		st, _ = old.Sys().(*syscall.Stat_t)
	}
	if st == nil {
		return 0, 0, false
	}
	return int(st.Uid), int(st.Gid), true
}

// own gives f, of which fi is known, to whom it is to belong. The step goes on where
// only root might: a file of one's own is better than none, but it is said.
func (w *worker) own(f *os.File, fi fs.FileInfo, old fs.FileInfo, fresh bool) (holder, error) {
	h := holder{fresh: fresh, mode: fi.Mode()}
	uid, gid, ok := w.whose(old)
	st, known := fi.Sys().(*syscall.Stat_t)
	if !ok || !known {
		return h, nil
	}
	h.uid, h.gid = int(st.Uid) == uid, int(st.Gid) == gid
	if !h.uid || !h.gid {
		err := f.Chown(uid, gid)
		if err == nil {
			h.uid, h.gid = true, true
		} else if !w.step.Owned {
			return h, err
		} else {
			if !h.gid {
				h.gid = f.Chown(-1, gid) == nil
			}
			w.left = append(w.left, fmt.Sprintf("it does not belong to %d:%d as it did (%s)", uid, gid, reason(err)))
		}
		if !fi.IsDir() {
			h.mode &^= setID // the kernel has taken them
		}
	}
	if !w.step.Owned {
		h.uid, h.gid = false, false // it is nobody's whom the history names
	}
	return h, nil
}

// lent is the mode that a file may have: m, without the set-id bits of an owner whom
// it does not have. A file that was there before gets none that it has not.
func (w *worker) lent(h holder, m fs.FileMode) fs.FileMode {
	dir := h.mode.IsDir() // there it only says to whom new files belong
	may := func(bit fs.FileMode, owner bool) bool {
		return owner && (h.fresh || dir || h.mode&bit != 0)
	}
	var off fs.FileMode
	if !dir && !may(fs.ModeSetuid, h.uid) {
		off |= fs.ModeSetuid
	}
	if !may(fs.ModeSetgid, h.gid || dir && !w.step.Owned) {
		off |= fs.ModeSetgid
	}
	for bit, name := range map[fs.FileMode]string{fs.ModeSetuid: "set-user-ID", fs.ModeSetgid: "set-group-ID"} {
		if m&off&bit != 0 {
			w.left = append(w.left, "it does not get the "+name+" bit: that comes back only with the owner who had given it")
		}
	}
	return m &^ off
}

// opened calls fn with what has the step's name, not by a symlink that somebody puts
// in its place meanwhile.
func (w *worker) opened(fn func(*os.File, fs.FileInfo) error) error {
	f, err := openIn(w.root, w.name, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	return fn(f, fi)
}

// chmod changes owner, mode, attributes and time in place; of a link, whose it is.
func (w *worker) chmod() error {
	m := mode(w.step.Mode)
	err := w.opened(func(f *os.File, fi fs.FileInfo) error {
		h, err := w.own(f, fi, fi, false)
		if err != nil {
			return err
		}
		set, known := w.wanted(false)
		changed := w.attributes(f, set, known, false)
		if changed && fi.IsDir() { // what is made in it may get another access list
			w.places.lists.Clear()
		}
		m = w.lent(h, m)
		if w.step.Mtime != 0 {
			if err := setMtime(w.root, f, w.step.Mtime); err != nil {
				return err
			}
		}
		if h.mode&bits != m&bits || changed || w.step.Mtime != 0 { // of a time alone the history does not hear
			if err := f.Chmod(m); err != nil {
				return err
			}
		}
		if !attrs.ReadFD(int(f.Fd())).Has(attrs.Capability) {
			w.capable(f, h, set)
		}
		return nil
	})
	if errors.Is(err, syscall.ELOOP) {
		if fi, err := w.root.Lstat(w.name); err != nil || fi.Mode()&fs.ModeSymlink == 0 {
			return errors.Join(err, errChanged)
		}
		if uid, gid, ok := w.whose(nil); ok && w.step.Owned {
			if err := w.root.Lchown(w.name, uid, gid); err != nil {
				w.left = append(w.left, fmt.Sprintf("it does not belong to %d:%d as it did (%s)", uid, gid, reason(err)))
			}
		}
		return nil
	}
	if errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0 {
		return w.root.Chmod(w.name, m&^setID) // one's own file that may not be read
	}
	return err
}
