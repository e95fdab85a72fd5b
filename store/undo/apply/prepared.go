package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"cachebro/store/leaf/attrs"
	"cachebro/store/leaf/event"
)

// Restoring a missing file takes seven requests to the mount: for its name, the file, its
// attributes, content and time, and the close. The mount also accepts the data of many such files
// in one request, as the value of an attribute of their directory. Each file then needs only a
// request for its name and one for its creation, and appears complete.

// prepare announces to the mount the file of the piece's step i, and files of later steps whose
// content was already fetched.
func (s *supply) prepare(i int, content []byte) {
	first := s.of[i]
	var files []event.PreparedFile
	var ws []*worker
	for room, j := event.MaxPrepared, i; j < len(s.of); j++ {
		w, b := s.of[j], content
		if j > i {
			b = s.have[w.step.N]
		}
		room -= len(w.name) + len(b) + 64 // size of the encoding
		if room < 0 || w.root != first.root {
			break
		}
		if len(b) > 0 && w.preparable() {
			files = append(files, event.PreparedFile{Name: []byte(w.name), Mode: w.step.Mode & 0o777, Mtime: w.step.Mtime, Content: b})
			ws = append(ws, w)
		}
	}
	if len(files) < 2 || ws[0] != first {
		return
	}
	dir, err := first.places.file(first.root)
	if err != nil || handOver(dir, files) != nil {
		return // each file is then written separately
	}
	for _, w := range ws {
		w.prepared = true
	}
}

// preparable reports whether mknod(2) and the mount can create the step's file completely, for any
// user.
func (w *worker) preparable() bool {
	switch {
	case !w.direct() || w.plan.Resume || w.step.Mtime == 0:
		return false
	case w.step.Mode&0o400 == 0 || w.step.Mode&0o7000 != 0:
		return false
	case len(w.step.Attrs) > 0 && attrs.Set(w.step.Attrs) != attrs.None:
		return false
	}
	uid, gid, owned := w.ownerToSet(nil)
	return !(owned && (uid != os.Geteuid() || gid != os.Getegid())) && !w.inherits()
}

// makePrepared creates a file that was announced to the mount. Then it checks the file, because
// another server, which did not receive the announcement, may have taken over the mount.
func (w *worker) makePrepared(content []byte) error {
	err := makeName(w.places, w.root, w.name, w.step.Mode&0o777)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("exists again: %w", errChanged)
	}
	if err != nil {
		return err
	}
	fi, err := w.root.Lstat(w.name)
	if err != nil {
		return err
	}
	st, known := fi.Sys().(*syscall.Stat_t)
	uid, gid, owned := w.ownerToSet(nil)
	otherOwner := owned && known && (int(st.Uid) != uid || int(st.Gid) != gid)
	switch {
	case !fi.Mode().IsRegular() || fi.Size() != int64(len(content)) || fi.ModTime().UnixNano() != w.step.Mtime:
		if w.begun(content, false) {
			return w.write(content)
		}
		return fmt.Errorf("was changed at once: %w", errChanged)
	case otherOwner || fi.Mode()&bits != mode(w.step.Mode):
		return w.settle()
	}
	return nil
}

// settle sets the owner and the mode of a file with complete content.
func (w *worker) settle() error {
	return w.opened(func(f *os.File, fi fs.FileInfo) error {
		h, err := w.setOwner(f, fi, nil, false)
		if err == nil && h.mode&bits != mode(w.step.Mode) {
			err = f.Chmod(mode(w.step.Mode))
		}
		return err
	})
}
