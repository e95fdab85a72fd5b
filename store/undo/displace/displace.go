package displace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// Grace is how long a displaced file exists after it lost its name. By then, a process that had
// looked up the name before has opened the file.
const Grace = 5 * time.Millisecond

// idleWait is how long appendNewer waits for processes that have the file open for writing.
const idleWait = 10 * time.Second

// Release lets others write to the file again.
func (h *Held) Release() {
	h.unlock()
	h.file.Close()
}

// Same reports whether the file is unchanged since it was held.
func (h *Held) Same() bool {
	now, err := h.file.Stat()
	return err == nil && same(now, h.info)
}

// same compares size and mtime. It ignores ctime, which a rename also changes.
func same(a, b fs.FileInfo) bool { return a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) }

// File returns the held file, open for reading.
func (h *Held) File() *os.File { return h.file }

// Changed reports whether the file has changed since it was held, or a process is waiting to change
// it.
func (h *Held) Changed() bool { return h.Asked() || !h.leased && !h.Same() }

// Displaced is a file that has lost its name and exists under a temporary one.
type Displaced struct {
	held      *Held
	root      *os.Root
	dir       *os.File
	tmp, name string
	taker     fs.FileInfo // stat of the file that took its name; nil: none
}

// Replace renames tmp, a file in root, to name, which the held file has. On the overlay that is
// enough. On other file systems the held file gets the name tmp, and the caller has to call Finish
// on the result. A nil Held means that the file was not held. Replace returns ErrChanged if the
// held file has changed.
func (h *Held) Replace(root *os.Root, tmp, name string, overlay bool) (*Displaced, error) {
	if h != nil && h.Changed() {
		return nil, ErrChanged
	}
	if h != nil && !overlay {
		taker, err := root.Lstat(tmp)
		if err != nil {
			return nil, err
		}
		d, err := h.displace(root, tmp, name, taker)
		if d != nil || err != nil {
			return d, err
		}
	}
	return nil, root.Rename(tmp, name)
}

// Remove removes name, which the held file has. It is otherwise like Replace.
func (h *Held) Remove(root *os.Root, tmp, name string, overlay bool) (*Displaced, error) {
	if h != nil && h.Changed() {
		return nil, ErrChanged
	}
	if h != nil && !overlay {
		d, err := h.displace(root, tmp, name, nil)
		if d != nil || err != nil {
			return d, err
		}
	}
	return nil, root.Remove(name)
}

// displace swaps the names of the held file and of tmp. If the file system does not support such a
// rename, it does nothing and returns nil.
func (h *Held) displace(root *os.Root, tmp, name string, taker fs.FileInfo) (*Displaced, error) {
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	d := &Displaced{held: h, root: root, dir: dir, tmp: tmp, name: name, taker: taker}
	if taker != nil {
		err = Exchange(dir, tmp, dir, name)
	} else {
		err = move(dir, name, tmp)
	}
	if err != nil {
		dir.Close()
		if unsupported(err) {
			err = nil
		}
		return nil, err
	}
	return d, nil
}

// Finish must be called after Grace. If the old file was not written meanwhile, Finish removes it.
// Otherwise the old file gets its name back, and the data written to the new file is appended to it
// (ErrGivenBack). If the new file is already in use, the data written to the old file is appended
// to the new one instead (ErrAppended).
func (d *Displaced) Finish() error {
	defer d.dir.Close()
	defer d.held.Release()
	at, err := d.root.Lstat(d.tmp)
	if err != nil {
		return err
	}
	asked := d.held.Asked()
	d.held.unlock()
	if os.SameFile(at, d.held.info) && !asked && d.held.Same() && idle(d.held.file) {
		return d.root.Remove(d.tmp)
	}
	return d.back()
}

// back gives the old file its name again, unless the new file is open for writing.
func (d *Displaced) back() error {
	was, outcome := d.held.info, ErrAppended // was describes the file at tmp, of which only the newer data is needed
	err := error(nil)
	if d.taker == nil || !d.busy() {
		if d.taker != nil {
			err = Exchange(d.dir, d.tmp, d.dir, d.name)
			was, outcome = d.taker, ErrGivenBack
		}
		if d.taker == nil || errors.Is(err, fs.ErrNotExist) { // no file has the name
			err = move(d.dir, d.tmp, d.name)
			if err == nil {
				return ErrGivenBack
			}
			was, outcome = d.held.info, ErrAppended
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if err := d.appendNewer(was); err != nil {
		return fmt.Errorf("%w, or in %q: %w", outcome, d.tmp, err)
	}
	return outcome
}

// busy reports whether the new file is open for writing.
func (d *Displaced) busy() bool {
	if !d.taker.Mode().IsRegular() {
		return false
	}
	f, err := d.root.Open(d.name)
	if err != nil {
		return false
	}
	defer f.Close()
	return !idle(f)
}

// appendNewer waits until the file at tmp is not open for writing. Then it copies the data that was
// appended to this file to the end of the file that has the name, and removes the file at tmp.
func (d *Displaced) appendNewer(was fs.FileInfo) error {
	if !was.Mode().IsRegular() {
		return d.root.Remove(d.tmp)
	}
	f, err := d.root.Open(d.tmp)
	if err != nil {
		return err
	}
	defer f.Close()
	for deadline := time.Now().Add(idleWait); !idle(f); time.Sleep(Grace) {
		if time.Now().After(deadline) {
			return ErrOpen
		}
	}
	fi, err := f.Stat()
	switch {
	case err != nil:
		return err
	case fi.Size() <= was.Size() && !same(fi, was):
		return errors.New("it was changed, not only appended to")
	case fi.Size() <= was.Size():
		return d.root.Remove(d.tmp)
	}
	to, err := d.root.OpenFile(d.name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, io.NewSectionReader(f, was.Size(), fi.Size()-was.Size()))
	if cerr := to.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return d.root.Remove(d.tmp)
}
