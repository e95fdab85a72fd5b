package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Erase overwrites the contents of the records before upTo for which match returns true. It returns
// the number of bytes overwritten. The reader must have handled all records before upTo. Reading an
// erased content returns ErrNoContent. Erase may run concurrently with a Writer and a Reader.
func Erase(dir string, upTo Position, match func(*Record) bool) (erased int64, err error) {
	r, err := OpenReader(dir, Position{})
	if err != nil {
		return 0, err
	}
	defer r.Close()
	wanted := map[uint64]bool{} // records whose contents are erased
	for {
		rec, err := r.TryNext()
		var damage *CorruptError
		switch {
		case errors.As(err, &damage):
			continue
		case err != nil:
			return erased, err
		case rec == nil || upTo.Before(r.Position()):
			return erased, nil
		case rec.Kind != KindContent && match(rec):
			wanted[rec.Seq] = true
		case rec.Kind == KindContent && wanted[rec.For] && rec.Len > 0:
			err := zero(filepath.Join(dir, contentName(rec.File)), rec.Off, rec.Len)
			if errors.Is(err, fs.ErrNotExist) {
				continue // released
			}
			if err != nil {
				return erased, fmt.Errorf("erase a content from the spool: %w", err)
			}
			erased += rec.Len
		}
	}
}

// zero overwrites a part of a file and waits until it is on disk.
func zero(path string, off, n int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, min(n, 1<<20))
	for ; n > 0; n -= int64(len(b)) {
		b = b[:min(n, int64(len(b)))]
		if _, err := f.WriteAt(b, off); err != nil {
			return err
		}
		off += int64(len(b))
	}
	return datasync(f)
}
