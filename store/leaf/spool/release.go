package spool

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// ErrNoContent means that the spool does not have the bytes of a KindContent record. The file was
// released, or a power loss damaged it.
var ErrNoContent = errors.New("content is not in the spool any more")

// Content returns the bytes of a KindContent record after verifying them.
func (r *Reader) Content(rec *Record) ([]byte, error) {
	if rec.Kind == KindContent && rec.Len == 0 {
		return []byte{}, nil // written without a content file
	}
	f, err := r.openContent(rec)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, rec.Len)
	if _, err := f.ReadAt(b, rec.Off); err != nil {
		if errors.Is(err, io.EOF) {
			err = ErrNoContent
		}
		return nil, fmt.Errorf("content of record %d: %w", rec.For, err)
	}
	if crc32.Checksum(b, castagnoli) != rec.Sum {
		return nil, fmt.Errorf("content of record %d has a wrong checksum: %w", rec.For, ErrNoContent)
	}
	return b, nil
}

func (r *Reader) openContent(rec *Record) (*os.File, error) {
	if rec.Kind != KindContent || rec.Len < 0 || rec.Off < 0 {
		return nil, fmt.Errorf("record %d is not a content", rec.Seq)
	}
	f, err := os.Open(filepath.Join(r.dir, contentName(rec.File)))
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrNoContent
	}
	if err != nil {
		return nil, fmt.Errorf("content of record %d: %w", rec.For, err)
	}
	return f, nil
}

// Release deletes files that are not needed once all records before pos were handled. These are
// whole segments, and content files that their Writer has closed and that no record after pos
// refers to.
func (r *Reader) Release(pos Position) error {
	l, err := list(r.dir, false)
	if err != nil {
		return err
	}
	var errs []error
	for i, n := range l.segments {
		if n < pos.Segment && i < len(l.segments)-1 {
			errs = append(errs, remove(filepath.Join(r.dir, segmentName(n))))
		}
	}
	var fresh []uint32
	there := make(map[uint32]bool, len(l.contents))
	for _, n := range l.contents {
		there[n] = true
		if _, ok := r.free[n]; !ok && r.closedByWriters(n) {
			fresh = append(fresh, n)
		}
	}
	// A Writer closes a content file after appending the last record for it. So once the Reader has
	// reached the head that is read here, it has read all records that refer to the file.
	head, err := r.Head()
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	for _, n := range fresh {
		r.free[n] = head
	}
	for n, head := range r.free {
		if !there[n] {
			delete(r.free, n)
			delete(r.refs, n)
		} else if !r.pos.Before(head) && !pos.Before(r.refs[n]) {
			errs = append(errs, remove(filepath.Join(r.dir, contentName(n))))
			delete(r.free, n)
			delete(r.refs, n)
		}
	}
	return errors.Join(errs...)
}

// closedByWriters reports whether no Writer has content file n open. It returns false for an empty
// file, because a Writer may have just created it and not locked it yet.
func (r *Reader) closedByWriters(n uint32) bool {
	f, err := os.Open(filepath.Join(r.dir, contentName(n)))
	if err != nil {
		return false
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || fi.Size() == 0 && time.Since(fi.ModTime()) < time.Minute {
		return false
	}
	ok, err := tryLock(f, syscall.LOCK_SH)
	return ok && err == nil
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("release spool: %w", err)
	}
	return nil
}
