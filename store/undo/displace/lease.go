package displace

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"cachebro/store/wire"
)

// ErrMeanwhile means that the tool derived the new content from an outdated one.
var ErrMeanwhile = wire.Errorf(wire.ErrConflict, "read it again", "it was written to meanwhile")

// lease prevents other processes from opening the file for writing until it is replaced. open is
// true if a process already has it open for writing. After a replacement that process would write
// to a file without a name.
func (f *File) lease() (held *Held, open bool, err error) {
	r, err := f.Root.OpenFile(f.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, false, err
	}
	held, err = Hold(r)
	if err != nil {
		r.Close()
		if errors.Is(err, ErrOpen) {
			return nil, true, nil
		}
		return nil, false, err
	}
	if !unchanged(held.info, f.Info) {
		held.Release()
		return nil, false, ErrMeanwhile
	}
	return held, false, nil
}

// unchanged reports whether a and b describe the same file with the same times.
func unchanged(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && same(a, b)
}

// replace renames tmp over the held file, and lets other processes open it for writing again (see
// the package comment).
func (f *File) replace(held *Held, tmp string) error {
	d, err := held.Replace(f.Root, tmp, f.Path, Overlay(f.Root.Name()))
	if d != nil {
		time.Sleep(Grace)
		err = d.Finish()
		if errors.Is(err, ErrAppended) {
			err = nil
		}
	} else {
		if held != nil {
			held.Release()
		}
		if err != nil {
			_ = f.Root.Remove(tmp)
		}
	}
	if errors.Is(err, ErrChanged) || errors.Is(err, ErrGivenBack) {
		return ErrMeanwhile
	}
	return err
}
