package spool

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
)

// maxIdle limits the number of idle content files. Many concurrent copies open many files, and the
// contents of an open file cannot be released.
const maxIdle = 4

// contentFile is an append-only file of content bytes. It is flocked while new records may refer to
// it.
type contentFile struct {
	f     *os.File
	n     uint32
	off   int64 // offset of the next content; owned by the goroutine that uses the file
	dirty atomic.Bool
}

// Content is a file's content while it is written into the spool. Write calls must be followed by
// Commit, Keep or Abort. It belongs to one goroutine.
type Content struct {
	w   *Writer
	cf  *contentFile
	off int64
	n   int64
	sum uint32
}

// NewContent begins a content in an idle content file. If there is none, it creates a file.
func (w *Writer) NewContent() (*Content, error) {
	w.poolMu.Lock()
	if w.open == nil {
		w.poolMu.Unlock()
		return nil, os.ErrClosed
	}
	if n := len(w.idle); n > 0 {
		cf := w.idle[n-1]
		w.idle = w.idle[:n-1]
		w.poolMu.Unlock()
		return &Content{w: w, cf: cf, off: cf.off}, nil
	}
	w.poolMu.Unlock()
	n := w.nextFile.Add(1) - 1
	if n >= w.fileBound.Load() {
		w.mu.Lock()
		err := w.reserveLocked()
		w.mu.Unlock()
		if err != nil {
			return nil, fmt.Errorf("open content file: %w", err)
		}
	}
	f, err := os.OpenFile(filepath.Join(w.dir, contentName(n)), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open content file: %w", err)
	}
	// Try several times, because a Reader that looks for files to release may briefly hold the
	// lock.
	for try := 0; ; try++ {
		if ok, err := tryLock(f, syscall.LOCK_EX); ok {
			break
		} else if err != nil || try == 100 {
			f.Close()
			return nil, fmt.Errorf("open content file: %w", errors.Join(err, ErrLocked))
		}
		time.Sleep(time.Millisecond)
	}
	cf := &contentFile{f: f, n: n}
	w.dirDirty.Store(true)
	w.poolMu.Lock()
	defer w.poolMu.Unlock()
	if w.open == nil {
		f.Close()
		return nil, os.ErrClosed
	}
	w.open[cf] = struct{}{}
	return &Content{w: w, cf: cf}, nil
}

// Write appends bytes of the content. Its error wraps the errno, such as ENOSPC.
func (c *Content) Write(p []byte) (int, error) {
	n, err := c.cf.f.WriteAt(p, c.off+c.n)
	c.n += int64(n)
	c.sum = crc32.Update(c.sum, castagnoli, p[:n])
	if err != nil {
		return n, fmt.Errorf("write content: %w", err)
	}
	return n, nil
}

// Len returns the number of bytes written so far.
func (c *Content) Len() int64 { return c.n }

// Record returns the KindContent record of the content, which belongs to version seq or, if seq is
// 0, to the record before it in the same Append. The caller appends the record and then calls Keep.
func (c *Content) Record(seq uint64) *Record {
	c.cf.dirty.Store(true)
	return &Record{Kind: KindContent, For: seq, File: c.cf.n, Off: c.off, Len: c.n, Sum: c.sum}
}

// Commit appends the KindContent record of version seq. After an error nothing was appended and the
// content is discarded.
func (c *Content) Commit(seq uint64) error {
	if _, err := c.w.Append(c.Record(seq)); err != nil {
		c.Abort()
		return err
	}
	c.Keep()
	return nil
}

// Keep ends the content. The caller has appended its record.
func (c *Content) Keep() {
	c.cf.off += c.n
	c.w.size.Add(c.n)
	c.returnFile()
}

// Abort discards the content. Its bytes will be overwritten.
func (c *Content) Abort() {
	if c.n > 0 {
		_ = c.cf.f.Truncate(c.cf.off) // frees blocks on a disk that may be full
	}
	c.returnFile()
}

// returnFile makes the content file available for other contents, or has it closed if it is full.
func (c *Content) returnFile() {
	w, cf := c.w, c.cf
	c.cf = nil
	w.poolMu.Lock()
	defer w.poolMu.Unlock()
	if w.open == nil {
		return
	}
	if cf.off < w.opt.ContentSize && len(w.idle) < maxIdle {
		w.idle = append(w.idle, cf)
		return
	}
	w.closeLaterLocked(cf)
}

// CloseIdle closes the idle content files, so that a Reader can release them. It is used when the
// spool is above its cap and its reader has caught up.
func (w *Writer) CloseIdle() {
	w.poolMu.Lock()
	defer w.poolMu.Unlock()
	still := w.idle[:0]
	for _, cf := range w.idle {
		if cf.off == 0 {
			still = append(still, cf)
		} else {
			w.closeLaterLocked(cf)
		}
	}
	w.idle = still
}

// closeLaterLocked makes the upkeep goroutine close a content file. The caller holds poolMu.
func (w *Writer) closeLaterLocked(cf *contentFile) {
	w.full = append(w.full, cf)
	w.mu.Lock()
	closed := w.closed
	if !closed {
		w.wakeUpkeep()
	}
	w.mu.Unlock()
}
