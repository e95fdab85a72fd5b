package displace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// Grace is how long a displaced file is kept after it lost its name: who had
// looked the name up before has opened the file by then.
const Grace = 5 * time.Millisecond

// idleWait is how long late writers are waited for.
const idleWait = 10 * time.Second

// Release lets others write to the file again.
func (h *Held) Release() {
	h.unlock()
	h.file.Close()
}

// Same: the file is as it was when it was held.
func (h *Held) Same() bool {
	now, err := h.file.Stat()
	return err == nil && same(now, h.info)
}

// same looks at no ctime: a rename changes that too.
func same(a, b fs.FileInfo) bool { return a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) }

// File is the held file, open for reading.
func (h *Held) File() *os.File { return h.file }

// Info is what the file was when it was held.
func (h *Held) Info() fs.FileInfo { return h.info }

// Changed: the file is no longer as it was when it was held, or will not be.
func (h *Held) Changed() bool { return h.Asked() || !h.leased && !h.Same() }

// Displaced is a file that has lost its name, and is kept under another one.
type Displaced struct {
	held      *Held
	root      *os.Root
	dir       *os.File
	tmp, name string
	taker     fs.FileInfo // took its place, as it was then; nil: none did
}

// Replace renames tmp, a file in root, to name, which the held file has. On the overlay that
// is enough. Elsewhere the held file is kept as tmp, and the caller has to call Finish on
// what is returned. A nil Held stands for a file that nobody was kept from. It returns
// ErrChanged if the held file is no longer as it was.
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

// Remove removes name, which the held file has, in the way of Replace.
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

// displace gives the held file the name tmp and its taker, which was tmp, the name that the
// held file had. It returns nil, and does nothing, if the file system knows no such rename.
func (h *Held) displace(root *os.Root, tmp, name string, taker fs.FileInfo) (*Displaced, error) {
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	d := &Displaced{held: h, root: root, dir: dir, tmp: tmp, name: name, taker: taker}
	if taker != nil {
		err = exchange(dir, tmp, name)
	} else {
		err = move(dir, name, tmp)
	}
	if err != nil {
		dir.Close()
		if cannot(err) {
			err = nil
		}
		return nil, err
	}
	return d, nil
}

// Finish is called a moment later, see Grace. If nobody wrote to the old file
// meanwhile, Finish removes it. Otherwise the old file gets its name back, with what
// was written to the new one appended (ErrGivenBack); or, where the new file is in
// use already, the new one gets what was written to the old one (ErrAppended).
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

// back gives the old file its name again, unless somebody writes to the new one.
func (d *Displaced) back() error {
	was, said := d.held.info, ErrAppended // the file at tmp, of which only what is newer is of use
	err := error(nil)
	if d.taker == nil || !d.busy() {
		if d.taker != nil {
			err = exchange(d.dir, d.tmp, d.name)
			was, said = d.taker, ErrGivenBack
		}
		if d.taker == nil || errors.Is(err, fs.ErrNotExist) { // nothing has the name
			err = move(d.dir, d.tmp, d.name)
			if err == nil {
				return ErrGivenBack
			}
			was, said = d.held.info, ErrAppended
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if err := d.appendNewer(was); err != nil {
		return fmt.Errorf("%w, or in %q: %w", said, d.tmp, err)
	}
	return said
}

// busy: the new file is open for writing.
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

// appendNewer appends what was appended to the file at tmp to the one that has the name,
// when nobody writes to it any more, and removes it.
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
		return errors.New("it is not only longer")
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
