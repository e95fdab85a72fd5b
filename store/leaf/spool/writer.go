package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"cachebro/store/leaf/loop"
	"cachebro/store/leaf/procfs"
)

// Options configure a Writer. mountd uses the zero value.
type Options struct {
	SegmentSize int64 // size in bytes at which a segment is closed; 0: 1 to 8 MiB, larger if segments fill fast
	ContentSize int64 // size at which a content file is closed; 0: 16 MiB
	// Boot identifies the boot of the machine; "" means the kernel's boot id. If it differs from
	// that of the previous Writer, records that a reader had seen may have been lost. Numbering
	// then continues at the reserved numbers.
	Boot string
	// Volatile means that the records must survive the end of the process, but not a power loss. They
	// are not synced, and no numbers are reserved.
	Volatile bool
}

const (
	leastSegment   = 1 << 20 // two are allocated, and an inactive project should take little space
	defaultSegment = 8 << 20
	fastFill       = time.Minute // after a segment that fills faster, the next one is twice as large
	defaultContent = 16 << 20    // open files cannot be released, so they should be small compared to the cap
	reserveSeqs    = 1 << 20     // numbers reserved with one fsync
	reserveFiles   = 1 << 10
)

// Writer appends to a spool. Only one per directory exists at a time (flock). All methods may be
// called concurrently.
type Writer struct {
	dir   string
	opt   Options
	least int64 // smallest segment size
	lock  *os.File
	boot  string

	// mu guards the log and is held during one pwrite. The write goes to the page cache, which
	// takes 1 to 2 µs and no disk access. It happens under the lock because the end of the file
	// must agree with the sequence number. A queue in memory would be lost with kill -9.
	mu        sync.Mutex
	seg       *os.File
	segOff    int64
	segLimit  int64     // size at which seg is closed
	segBegan  time.Time // when seg was begun
	nextLimit int64     // size of the segment after seg, which may already be allocated
	next      uint64    // Seq of the next record
	reserved  uint64    // lower Seqs are reserved on disk
	spare     bool      // spare.seg exists
	oldSegs   []*os.File
	closed    bool

	// poolMu guards the content files.
	poolMu sync.Mutex
	idle   []*contentFile
	open   map[*contentFile]struct{} // idle, in use or full
	full   []*contentFile            // files that reached ContentSize or are not needed; the upkeep syncs and closes them

	// syncMu is held during fdatasync and while files are closed. Its holder may use any descriptor
	// in the lists above.
	syncMu   sync.Mutex
	dirDirty atomic.Bool
	synced   atomic.Uint64

	nextFile  atomic.Uint32
	fileBound atomic.Uint32 // lower content numbers are reserved on disk

	appended atomic.Uint64 // Seq of the last record
	size     atomic.Int64
	sized    atomic.Int64 // when size was last computed, ns

	wake chan struct{} // wakes the upkeep; closed by Close
	// news has a value if a record was appended since the last receive. It is never closed.
	news chan struct{}
	done sync.WaitGroup
}

// OpenWriter opens the spool in dir (created if missing, 0700) and begins a new segment. It returns
// ErrLocked if another Writer is alive.
func OpenWriter(dir string, opt Options) (*Writer, error) {
	least := opt.SegmentSize
	if opt.SegmentSize <= 0 {
		opt.SegmentSize, least = defaultSegment, leastSegment
	}
	if opt.ContentSize <= 0 {
		opt.ContentSize = defaultContent
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make spool: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open spool: %w", err)
	}
	// Try several times, because a Reader that checks for a live Writer holds the lock for an
	// instant.
	for try := 0; ; try++ {
		ok, err := tryLock(lock, syscall.LOCK_EX)
		if err == nil && ok {
			break
		}
		if err == nil && try >= 50 {
			err = ErrLocked
		}
		if err != nil {
			lock.Close()
			return nil, fmt.Errorf("open spool %s: %w", dir, err)
		}
		time.Sleep(2 * time.Millisecond)
	}
	w := &Writer{dir: dir, opt: opt, least: least, lock: lock, boot: opt.Boot,
		open: make(map[*contentFile]struct{}), wake: make(chan struct{}, 1), news: make(chan struct{}, 1)}
	if w.boot == "" {
		w.boot = procfs.BootID()
	}
	if err := w.begin(); err != nil {
		lock.Close()
		return nil, fmt.Errorf("open spool %s: %w", dir, err)
	}
	w.done.Add(1)
	go w.upkeep()
	w.wakeUpkeep()
	return w, nil
}

// begin finds the next number, cuts a torn tail and creates the first segment.
func (w *Writer) begin() error {
	l, err := list(w.dir, true)
	if err != nil {
		return err
	}
	w.size.Store(l.size)
	w.sized.Store(time.Now().UnixNano())
	res := readReserve(w.dir)
	w.next = 1
	for _, n := range l.contents {
		w.nextFile.Store(max(w.nextFile.Load(), n+1))
	}
	if len(l.segments) > 0 {
		last := l.segments[len(l.segments)-1]
		end, seq, err := cutTail(filepath.Join(w.dir, segmentName(last)))
		if err != nil {
			return err
		}
		w.next = max(w.next, last, seq+1)
		defer func() { // the old segment may be marked as ended only once the new one exists
			if segmentName(last) != segmentName(w.next) {
				markEnd(filepath.Join(w.dir, segmentName(last)), end)
			}
		}()
	}
	if res.boot != w.boot || len(l.segments) == 0 {
		w.next = max(w.next, res.seq)
		w.nextFile.Store(max(w.nextFile.Load(), res.file))
	}
	if err := w.reserveLocked(); err != nil {
		return err
	}
	f, err := createSegment(filepath.Join(w.dir, segmentName(w.next)), w.least)
	if err != nil {
		return err
	}
	w.seg, w.segBegan = f, time.Now()
	w.segLimit, w.nextLimit = w.least, w.least
	w.appended.Store(w.next - 1)
	w.synced.Store(w.next - 1)
	w.dirDirty.Store(true)
	return nil
}

// createSegment creates an empty segment and allocates its space. A full disk is no error here;
// appends fail until there is space again.
func createSegment(path string, size int64) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	if err := allocate(f, size); err != nil && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		f.Close()
		return nil, fmt.Errorf("allocate %s: %w", filepath.Base(path), err)
	}
	return f, nil
}

// Append writes the records in order, as one pwrite, sets their Seq and returns the last Seq. A
// KindContent with For == 0 gets the Seq of the record before it. After an error (ENOSPC, EDQUOT,
// EIO) none of the records is in the log, and the caller counts a gap.
func (w *Writer) Append(recs ...*Record) (uint64, error) {
	if len(recs) == 0 {
		return w.appended.Load(), nil
	}
	bp := bufs.Get().(*[]byte)
	defer bufs.Put(bp)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return 0, os.ErrClosed
	}
	// Encode the records under the lock, because a record's For may be the Seq of another one. The
	// encoding takes 0.3 µs.
	b := (*bp)[:0]
	for i, r := range recs {
		r.Seq = w.next + uint64(i)
		if r.Kind == KindContent && r.For == 0 && i > 0 {
			r.For = r.Seq - 1
		}
		at := len(b)
		b = appendRecord(b, r)
		if len(b)-at > maxPayload {
			return 0, fmt.Errorf("append to spool: a record of %d bytes is longer than %d", len(b)-at, maxPayload)
		}
	}
	*bp = b
	for rest, seq := b, w.next; len(rest) > 0; seq++ {
		rest = seal(rest, seq)
	}
	if w.next+uint64(len(recs)) >= w.reserved {
		if err := w.reserveLocked(); err != nil {
			return 0, fmt.Errorf("append to spool: %w", err)
		}
	}
	if w.segOff >= w.segLimit {
		w.rollLocked()
	}
	n, err := w.seg.WriteAt(b, w.segOff)
	if err != nil {
		if n > 0 { // remove half a record, which would precede the next one
			_ = w.seg.Truncate(w.segOff)
		}
		return 0, fmt.Errorf("append to spool: %w", err)
	}
	w.segOff += int64(len(b))
	w.next += uint64(len(recs))
	w.size.Add(int64(len(b)))
	w.appended.Store(w.next - 1)
	loop.Wake(w.news)
	return w.next - 1, nil
}

// Appended returns a channel that has a value if a record was appended since the last receive. It
// wakes one waiting goroutine.
func (w *Writer) Appended() <-chan struct{} { return w.news }

var bufs = sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }}

// rollLocked begins a new segment if possible. On a full disk the current segment grows instead,
// because it may still have allocated blocks. The caller holds mu.
func (w *Writer) rollLocked() {
	path := filepath.Join(w.dir, segmentName(w.next))
	var f *os.File
	var err error
	if w.spare {
		w.spare = false
		err = os.Rename(filepath.Join(w.dir, spareName), path)
		if err == nil {
			f, err = os.OpenFile(path, os.O_RDWR, 0o600)
		}
	} else if w.segOff < 2*w.segLimit {
		w.wakeUpkeep() // the next segment is not ready, so continue in this one
		return
	} else {
		f, err = createSegment(path, w.nextLimit)
	}
	if err != nil || f == nil {
		w.wakeUpkeep()
		return
	}
	putEnd(w.seg, w.segOff)
	w.oldSegs = append(w.oldSegs, w.seg)
	w.seg, w.segOff = f, 0
	w.segLimit = w.nextLimit
	if time.Since(w.segBegan) < fastFill {
		w.nextLimit = min(2*w.nextLimit, w.opt.SegmentSize)
	} else {
		w.nextLimit = max(w.nextLimit/2, w.least)
	}
	w.segBegan = time.Now()
	w.dirDirty.Store(true)
	w.wakeUpkeep()
}

// putEnd writes the end mark. If the mark is missing (full disk), a Reader finds the next segment
// by listing the directory.
func putEnd(f *os.File, off int64) {
	var m [headerLen]byte
	binary.LittleEndian.PutUint32(m[:], endLength)
	binary.LittleEndian.PutUint32(m[4:], endSum)
	_, _ = f.WriteAt(m[:], off)
}

// LastSeq returns the Seq of the last record appended.
func (w *Writer) LastSeq() uint64 { return w.appended.Load() }

// Dir returns the spool's directory.
func (w *Writer) Dir() string { return w.dir }

// Size returns the number of bytes in unreleased segments and content files. It recounts at most
// every 50 ms, because another process releases them.
func (w *Writer) Size() int64 {
	now := time.Now().UnixNano()
	if at := w.sized.Load(); now-at > int64(50*time.Millisecond) && w.sized.CompareAndSwap(at, now) {
		if l, err := list(w.dir, true); err == nil {
			w.size.Store(l.size)
		}
	}
	return w.size.Load()
}

// Close syncs and ends the Writer. An uncommitted content then fails with os.ErrClosed.
func (w *Writer) Close() error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil
	}
	w.closed = true
	w.mu.Unlock()
	close(w.wake)
	w.done.Wait()
	err := w.Sync(w.LastSeq())
	w.syncMu.Lock()
	defer w.syncMu.Unlock()
	w.poolMu.Lock()
	for cf := range w.open {
		cf.f.Close()
	}
	w.open, w.idle, w.full = nil, nil, nil
	w.poolMu.Unlock()
	w.seg.Close()
	_ = os.Remove(filepath.Join(w.dir, spareName))
	return errors.Join(err, w.lock.Close())
}
