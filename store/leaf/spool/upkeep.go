package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"cachebro/store/leaf/loop"
)

// wakeUpkeep wakes the upkeep goroutine. The caller may hold mu.
func (w *Writer) wakeUpkeep() { loop.Wake(w.wake) }

// upkeep is the Writer's only goroutine. It allocates the next segment in advance and closes full
// files. Close ends it.
func (w *Writer) upkeep() {
	defer w.done.Done()
	var retry <-chan time.Time
	pause := time.Second
	for {
		select {
		case _, ok := <-w.wake:
			if !ok {
				return
			}
		case <-retry:
		}
		retry = nil
		if !w.makeSpare() {
			retry = time.After(pause) // the disk is full
			pause = min(2*pause, time.Minute)
		} else {
			pause = time.Second
		}
		w.closeFull()
	}
}

// makeSpare creates spare.seg if necessary and reports whether it exists.
func (w *Writer) makeSpare() bool {
	w.mu.Lock()
	have, size := w.spare || w.closed, w.nextLimit
	w.mu.Unlock()
	if have {
		return true
	}
	path := filepath.Join(w.dir, spareName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return false
	}
	err = allocate(f, size)
	f.Close()
	if err != nil { // blocks cannot be reserved; leave the space for the current segment
		_ = os.Remove(path)
		return false
	}
	w.mu.Lock()
	w.spare = true
	w.mu.Unlock()
	return true
}

// closeFull makes full files durable and closes them. Closing also unlocks content files, so that
// they can be released.
func (w *Writer) closeFull() {
	w.syncMu.Lock()
	defer w.syncMu.Unlock()
	w.mu.Lock()
	segs := w.oldSegs
	w.oldSegs = nil
	w.mu.Unlock()
	for _, f := range segs {
		_ = datasync(f)
		_ = f.Close()
	}
	w.poolMu.Lock()
	full := w.full
	w.full = nil
	w.poolMu.Unlock()
	for _, cf := range full {
		_ = datasync(cf.f)
		w.poolMu.Lock()
		delete(w.open, cf)
		w.poolMu.Unlock()
		_ = cf.f.Close()
	}
}

// Sync makes every record up to and including upTo, with its content, durable against power loss.
// Callers that arrive during a sync share the next one (group commit).
func (w *Writer) Sync(upTo uint64) error {
	if w.opt.Volatile || w.synced.Load() >= upTo {
		return nil
	}
	w.syncMu.Lock()
	defer w.syncMu.Unlock()
	if w.synced.Load() >= upTo {
		return nil
	}
	w.mu.Lock()
	last := w.next - 1
	segs := append(w.oldSegs[:len(w.oldSegs):len(w.oldSegs)], w.seg)
	w.mu.Unlock()
	// Contents are written before the records that refer to them. So for the records up to last,
	// only files that are dirty now need a sync.
	w.poolMu.Lock()
	var dirty []*contentFile
	for cf := range w.open {
		if cf.dirty.Swap(false) {
			dirty = append(dirty, cf)
		}
	}
	w.poolMu.Unlock()
	for _, cf := range dirty {
		if err := datasync(cf.f); err != nil {
			cf.dirty.Store(true)
			return fmt.Errorf("sync spool: %w", err)
		}
	}
	for _, f := range segs {
		if err := datasync(f); err != nil {
			return fmt.Errorf("sync spool: %w", err)
		}
	}
	if w.dirDirty.Swap(false) {
		if err := syncDir(w.dir); err != nil {
			w.dirDirty.Store(true)
			return fmt.Errorf("sync spool: %w", err)
		}
	}
	w.synced.Store(last)
	return nil
}

// reservation is the content of the file "reserve". It holds the lowest Seq and content file number
// that were certainly never used, even if a power loss removed records from the log.
type reservation struct {
	boot string
	seq  uint64
	file uint32
}

func readReserve(dir string) (r reservation) {
	b, err := os.ReadFile(filepath.Join(dir, reserveName))
	if err != nil {
		return r
	}
	if _, err := fmt.Sscan(string(b), &r.boot, &r.seq, &r.file); err != nil {
		return reservation{}
	}
	return r
}

// reserveLocked reserves numbers in advance. It takes a few milliseconds, once in a million
// records. The caller holds mu or is the Writer's only user. On a full disk the old reservation
// stays and numbering continues. Only a power loss before the next reservation could then repeat a
// number.
func (w *Writer) reserveLocked() error {
	if w.opt.Volatile {
		w.reserved = math.MaxUint64
		w.fileBound.Store(math.MaxUint32)
		return nil
	}
	r := reservation{w.boot, w.next + 2*reserveSeqs, w.nextFile.Load() + 2*reserveFiles}
	err := writeReserve(w.dir, r)
	if err != nil && errors.Is(err, fs.ErrNotExist) {
		return err
	}
	w.reserved = w.next + reserveSeqs
	w.fileBound.Store(r.file - reserveFiles)
	return nil
}

func writeReserve(dir string, r reservation) error {
	tmp := filepath.Join(dir, reserveName+".new")
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s %d %d\n", r.boot, r.seq, r.file)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(tmp, filepath.Join(dir, reserveName))
	}
	if err != nil {
		_ = os.Remove(tmp)
		return err
	}
	return syncDir(dir)
}
