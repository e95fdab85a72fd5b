package spool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"cachebro/store/leaf/loop"
)

// Position is a place between two records. The zero Position is before the oldest remaining record.
type Position struct {
	Segment uint64 // first Seq of the segment
	Offset  int64  // bytes
}

// Before reports whether p comes before q.
func (p Position) Before(q Position) bool {
	return p.Segment < q.Segment || p.Segment == q.Segment && p.Offset < q.Offset
}

// CorruptError reports skipped bytes of a segment that are not records. Reading continues after
// them.
type CorruptError struct {
	Segment  uint64
	Offset   int64
	Skipped  int64  // bytes
	Last     uint64 // Seq of the last record before the damage
	Continue uint64 // Seq of the first record after the damage; 0: in a later segment
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("spool segment %s: %d bytes at offset %d are damaged; records after %d are missing",
		segmentName(e.Segment), e.Skipped, e.Offset, e.Last)
}

const readAhead = 256 << 10

// Reader follows a spool. Only one goroutine may call TryNext and Release; any goroutine may call
// the other methods.
type Reader struct {
	dir  string
	lock *os.File

	f       *os.File // segment being read; nil: none yet
	buf     []byte   // bytes from pos on
	bufs    []byte   // backing array of buf
	lastSeq uint64
	badFrom time.Time // when the record at pos was first found broken
	refs    map[uint32]Position
	free    map[uint32]Position // content files that no Writer has open, with the head at the time when this was found

	// mu guards the fields below, because any goroutine may call Head and Position.
	mu      sync.Mutex
	pos     Position
	torn    Position // end of the garbage after pos that a dead Writer left
	headSeg *os.File
	headNum uint64

	poke   chan struct{}
	note   *notifier
	polled time.Duration // the last pause between two polls; 0 after a record
}

// OpenReader opens the spool in dir, which it creates if missing. It continues at a Position that
// an earlier Reader returned.
func OpenReader(dir string, from Position) (*Reader, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open spool: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open spool: %w", err)
	}
	r := &Reader{dir: dir, lock: lock, pos: from, refs: make(map[uint32]Position),
		free: make(map[uint32]Position), poke: make(chan struct{}, 1), bufs: make([]byte, readAhead)}
	r.note = newNotifier(r.Poke)
	if from.Segment > 0 {
		r.lastSeq = from.Segment - 1
	}
	return r, nil
}

// Close ends the Reader. It does not end a waiting Joiner.Next; only the context does.
func (r *Reader) Close() error {
	r.note.close()
	if r.f != nil {
		r.f.Close()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.headSeg != nil {
		r.headSeg.Close()
		r.headSeg = nil
	}
	return r.lock.Close()
}

// Poke makes a waiting Joiner.Next check for records again.
func (r *Reader) Poke() { loop.Wake(r.poke) }

// Position returns the place after the last returned record. A later Reader may start there.
func (r *Reader) Position() Position {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pos
}

// wait returns when the log may have grown, or after d.
func (r *Reader) wait(ctx context.Context, d time.Duration) error {
	watched := ""
	if r.f != nil {
		watched = r.f.Name()
	} else {
		watched = r.dir
	}
	if r.note.arm(watched) {
		r.polled = 0
	} else { // without notification, poll; the pause grows while no record arrives
		r.polled = min(max(2*r.polled, 5*time.Millisecond), time.Second)
		d = min(d, r.polled)
	}
	if !r.badFrom.IsZero() { // a torn record is completed within about a second, or never
		d = min(d, max(100*time.Millisecond, time.Since(r.badFrom)/2))
	}
	// Check again for records that were appended before the watch was set.
	if head, err := r.Head(); err == nil && r.Position().Before(head) && r.badFrom.IsZero() {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-r.poke:
	case <-time.After(d):
	}
	return nil
}

// TryNext returns the next record without waiting. It returns nil, nil if there is none.
func (r *Reader) TryNext() (*Record, error) {
	for {
		if r.f == nil {
			if ok, err := r.openSegment(); !ok || err != nil {
				return nil, err
			}
		}
		n, v := examine(r.buf)
		if v == partial {
			if err := r.fill(len(r.buf)); err != nil {
				return nil, err
			}
			n, v = examine(r.buf)
		}
		switch v {
		case whole:
			rec := new(Record)
			err := decode(r.buf[headerLen:n], rec)
			off := r.advance(n)
			if err != nil {
				return nil, &CorruptError{off.Segment, off.Offset, int64(n), r.lastSeq, 0}
			}
			r.lastSeq, r.polled = rec.Seq, 0
			if rec.Kind == KindContent && rec.Len > 0 {
				r.refs[rec.File] = r.pos
			}
			return rec, nil
		case ended:
			if ok, err := r.nextSegment(); !ok || err != nil {
				return nil, err
			}
		default:
			again, err := r.stuck(v)
			if !again || err != nil {
				return nil, err
			}
		}
	}
}

// advance moves the position n bytes forward and returns the old position.
func (r *Reader) advance(n int) Position {
	r.buf = r.buf[n:]
	r.badFrom = time.Time{}
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.pos
	r.pos.Offset += int64(n)
	r.torn = Position{}
	return was
}

// fill reads the segment again from pos. The parameter "have" is the number of bytes that were read
// before. If they leave too little room in the buffer, fill makes a larger one.
func (r *Reader) fill(have int) error {
	if need := have + readAhead; cap(r.bufs) < need && have >= readAhead/2 {
		r.bufs = make([]byte, need) // the record may be longer than the buffer
	}
	b := r.bufs[:cap(r.bufs)]
	n, err := r.f.ReadAt(b, r.pos.Offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read spool: %w", err)
	}
	r.buf = b[:n]
	return nil
}

// stuck handles bytes that are not a whole record. They are a write in progress, the torn tail of a
// dead Writer, or damage. It returns true to try again at once.
func (r *Reader) stuck(v verdict) (bool, error) {
	l, err := list(r.dir, false)
	if err != nil {
		return false, err
	}
	successor := len(l.segments) > 0 && l.segments[len(l.segments)-1] > r.pos.Segment
	alive := successor || r.WriterAlive()
	// Everything appended before the two checks above is visible now.
	size := len(r.buf)
	if err := r.fill(len(r.buf)); err != nil {
		return false, err
	}
	if _, v2 := examine(r.buf); v2 == whole || v2 == ended || len(r.buf) != size {
		return true, nil
	}
	if len(r.buf) > 0 && r.badFrom.IsZero() {
		r.badFrom = time.Now()
	}
	// A living Writer completes a record within microseconds, so bytes that stay broken for a
	// second are damage.
	final := successor || !alive || v == broken && time.Since(r.badFrom) > time.Second
	if final && len(r.buf) > 0 {
		if n, ok := resync(r.buf, r.lastSeq); ok {
			e := &CorruptError{Segment: r.pos.Segment, Offset: r.pos.Offset, Skipped: int64(n), Last: r.lastSeq, Continue: seqOf(r.buf[n:])}
			r.advance(n)
			return false, e
		}
	}
	if successor {
		return r.nextSegment()
	}
	if !alive {
		r.mu.Lock()
		r.torn = Position{r.pos.Segment, r.pos.Offset + int64(len(r.buf))}
		r.mu.Unlock()
	}
	return false, nil
}

// openSegment opens the segment of pos, or the first one after it.
func (r *Reader) openSegment() (bool, error) {
	l, err := list(r.dir, false)
	if err != nil {
		return false, err
	}
	for _, n := range l.segments {
		if n < r.pos.Segment {
			continue
		}
		f, err := os.Open(filepath.Join(r.dir, segmentName(n)))
		if err != nil {
			return false, fmt.Errorf("open segment: %w", err)
		}
		r.f, r.buf = f, nil
		r.badFrom = time.Time{}
		r.mu.Lock()
		if n != r.pos.Segment {
			r.pos = Position{Segment: n}
		}
		r.mu.Unlock()
		return true, nil
	}
	return false, nil
}

func (r *Reader) nextSegment() (bool, error) {
	l, err := list(r.dir, false)
	if err != nil {
		return false, err
	}
	for _, n := range l.segments {
		if n <= r.pos.Segment {
			continue
		}
		r.f.Close()
		r.f = nil
		r.mu.Lock()
		r.pos = Position{Segment: n}
		r.mu.Unlock()
		return r.openSegment()
	}
	return false, nil
}

// Head returns the current end of the log, at the cost of one fstat. A Reader whose Position is not
// Before this end has read everything that was appended before the call.
func (r *Reader) Head() (Position, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if r.headSeg == nil || r.headNum < r.pos.Segment {
			if ok, err := r.newestLocked(); !ok || err != nil {
				return r.pos, err
			}
		}
		var st syscall.Stat_t
		if err := syscall.Fstat(int(r.headSeg.Fd()), &st); err != nil {
			return r.pos, fmt.Errorf("stat segment: %w", err)
		}
		head := Position{r.headNum, st.Size}
		if head == r.pos || head == r.torn {
			return r.pos, nil
		}
		// The segment is longer than what was read. Records or the end mark follow.
		var mark [headerLen]byte
		if st.Size >= headerLen {
			if _, err := r.headSeg.ReadAt(mark[:], st.Size-headerLen); err != nil && !errors.Is(err, io.EOF) {
				return r.pos, fmt.Errorf("read segment: %w", err)
			}
		}
		if _, v := examine(mark[:]); v != ended {
			return head, nil
		}
		was := r.headNum
		if ok, err := r.newestLocked(); !ok || err != nil {
			return head, err
		}
		if r.headNum == was {
			// The end mark is the last data, so the head is before it.
			head.Offset -= headerLen
			if head.Before(r.pos) {
				head = r.pos
			}
			return head, nil
		}
	}
}

// Size returns the number of bytes in unreleased segments and content files, or 0 if unknown.
func (r *Reader) Size() int64 {
	l, err := list(r.dir, true)
	if err != nil {
		return 0
	}
	return l.size
}

// newestLocked makes headSeg the newest segment. The caller holds mu.
func (r *Reader) newestLocked() (bool, error) {
	l, err := list(r.dir, false)
	if err != nil || len(l.segments) == 0 {
		return false, err
	}
	n := l.segments[len(l.segments)-1]
	if r.headSeg != nil && n == r.headNum {
		return true, nil
	}
	f, err := os.Open(filepath.Join(r.dir, segmentName(n)))
	if err != nil {
		return false, fmt.Errorf("open segment: %w", err)
	}
	if r.headSeg != nil {
		r.headSeg.Close()
	}
	r.headSeg, r.headNum = f, n
	return true, nil
}

// WriterAlive reports whether a Writer has the spool open.
func (r *Reader) WriterAlive() bool {
	ok, err := tryLock(r.lock, syscall.LOCK_SH)
	if err != nil || !ok {
		return true // unknown, so assume that it is alive
	}
	_ = syscall.Flock(int(r.lock.Fd()), syscall.LOCK_UN)
	return false
}
