package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"cachebro/store/leaf/attrs"
)

// A file gets the owner of the restored version, and set-id bits only together with that owner.
// Otherwise somebody else's content would run with the rights of the user who applies the plan.

const (
	setID = fs.ModeSetuid | fs.ModeSetgid
	bits  = fs.ModePerm | setID | fs.ModeSticky
)

// holder describes which parts of the step's ownership a file has.
type holder struct {
	uid, gid bool // the file has the step's owner, the step's group
	fresh    bool // no other process can have opened the file
	mode     fs.FileMode
}

// ownerToSet returns the owner that the file should get. It is the owner that the step contains.
// Without one, if root undoes something for a user, it is the owner of the replaced file or else of
// its directory. ok is false if no owner has to be set.
func (w *worker) ownerToSet(old fs.FileInfo) (uid, gid int, ok bool) {
	if w.step.Owned {
		return int(w.step.UID), int(w.step.GID), true
	}
	st := w.owned
	if st == nil {
		return 0, 0, false // only root may change the owner
	}
	if old != nil {
		st, _ = old.Sys().(*syscall.Stat_t)
	}
	if st == nil {
		return 0, 0, false
	}
	return int(st.Uid), int(st.Gid), true
}

// setOwner sets the owner of f, whose present stat is fi. If only root may do so, the step
// continues and the difference is reported, because a file with another owner is better than none.
func (w *worker) setOwner(f *os.File, fi fs.FileInfo, old fs.FileInfo, fresh bool) (holder, error) {
	h := holder{fresh: fresh, mode: fi.Mode()}
	uid, gid, ok := w.ownerToSet(old)
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
			w.left = append(w.left, fmt.Sprintf("its owner %d:%d could not be restored (%s)", uid, gid, reason(err)))
		}
		if !fi.IsDir() {
			h.mode &^= setID // the kernel has cleared them
		}
	}
	if !w.step.Owned {
		h.uid, h.gid = false, false // the history does not record its owner
	}
	return h, nil
}

// allowedMode returns the mode that a file may get. It is m without the set-id bits of an owner or
// group that the file does not have. An existing file never gets a set-id bit that it lacks.
func (w *worker) allowedMode(h holder, m fs.FileMode) fs.FileMode {
	dir := h.mode.IsDir() // on a directory the bit only determines the group of new files
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
			w.left = append(w.left, "the "+name+" bit was not restored: it is restored only together with the owner who had set it")
		}
	}
	return m &^ off
}

// opened calls fn with the file of the step's name. It does not follow a symlink that was created
// meanwhile.
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

// chmod changes owner, mode, attributes and time in place. On a symlink it changes only the owner.
func (w *worker) chmod() error {
	m := mode(w.step.Mode)
	err := w.opened(func(f *os.File, fi fs.FileInfo) error {
		h, err := w.setOwner(f, fi, fi, false)
		if err != nil {
			return err
		}
		set, known := w.wanted(false)
		changed := w.attributes(f, set, known, false)
		if changed && fi.IsDir() { // new files in it may get another access control list
			w.places.lists.Clear()
		}
		m = w.allowedMode(h, m)
		if w.step.Mtime != 0 {
			if err := setMtime(w.root, f, w.step.Mtime); err != nil {
				return err
			}
		}
		if h.mode&bits != m&bits || changed || w.step.Mtime != 0 { // the history does not record a change of the time alone
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
		if uid, gid, ok := w.ownerToSet(nil); ok && w.step.Owned {
			if err := w.root.Lchown(w.name, uid, gid); err != nil {
				w.left = append(w.left, fmt.Sprintf("its owner %d:%d could not be restored (%s)", uid, gid, reason(err)))
			}
		}
		return nil
	}
	if errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0 {
		return w.root.Chmod(w.name, m&^setID) // an unreadable file of this user
	}
	return err
}
