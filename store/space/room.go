package space

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Options configure a Room.
type Options struct {
	// MinFree is the free space in bytes to leave on the file system. 0: 2 GiB or 5 %, whichever is
	// less, but at least Reserve.
	MinFree int64
	// Ballast is the largest size in bytes of the ballast, a file that is deleted to open the store
	// on a full disk; <= 0: none. Small stores have a smaller ballast.
	Ballast int64
	// ReadOnly means that nothing is written, not even a ballast.
	ReadOnly bool
}

const (
	mib = int64(1) << 20
	gib = int64(1) << 30

	// Reserve is the space that Badger may allocate after a batch was accepted: three memtable
	// logs, the tables made from them, and one compaction.
	Reserve = 24 * mib
)

// ErrFull means that too little space is free. Nothing was written.
var ErrFull = errors.New("not enough free space for the store")

// Room watches the file system of the store. Badger writes through mapped files. On a full disk the
// process would die of SIGBUS, from which Go cannot recover. So every write calls Check first. If
// the disk is full, deleting the preallocated ballast makes room to open the store.
type Room struct {
	dir string
	opt Options

	// spent is the space that was freed by deleting the ballast. Data must not fill it.
	spent atomic.Int64

	// mu guards the fields below. No other lock is taken while it is held.
	mu    sync.Mutex
	size  int64     // size of the directory at time sized
	sized time.Time // time of the last measurement
	grown int64     // bytes accepted since sized
	wrote time.Time // time of the last NoteWrote that wrote
	since int64     // bytes accepted since the last check of the ballast's size
}

// New returns the Room for a store's directory.
func New(dir string, o Options) *Room { return &Room{dir: dir, opt: o} }

// ballastFile is the ballast's name in the store's directory.
const ballastFile = "ballast"

func (r *Room) ballast() string { return filepath.Join(r.dir, ballastFile) }

// Free returns how many bytes an ordinary user may still allocate, and the size of the file system.
func (r *Room) Free() (free, total int64, err error) {
	free, total, _, err = r.measure()
	return free, total, err
}

// minFiles is the number of inodes that must be free. If Badger cannot make a file in the middle of a
// batch, the values that it has already written stay, so each retry would take up more space.
const minFiles = 8

// measure is like Free, and also reports whether at least minFiles inodes are free.
func (r *Room) measure() (free, total int64, files bool, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(r.dir, &st); err != nil {
		return 0, 0, false, fmt.Errorf("statfs %s: %w", r.dir, err)
	}
	bs := int64(st.Bsize)
	files = st.Files == 0 || st.Ffree >= minFiles // btrfs has no limit and returns 0
	return int64(st.Bavail) * bs, int64(st.Blocks) * bs, files, nil
}

// Floor returns the free space below which nothing is written.
func (r *Room) Floor(total int64) int64 {
	f := r.opt.MinFree
	if f == 0 {
		f = min(2*gib, total/20)
	}
	return max(f, Reserve)
}

// Check returns ErrFull if writing n bytes would leave less than the floor free.
func (r *Room) Check(n int64) error {
	if r.opt.ReadOnly {
		return fmt.Errorf("%w: the store is open for reading only", ErrFull)
	}
	free, total, files, err := r.measure()
	if err != nil {
		return err
	}
	if least := r.Floor(total) + r.spent.Load() + 2*n; free < least {
		return fmt.Errorf("%w: %d MiB free, %d MiB are needed", ErrFull, free/mib, (least+mib-1)/mib)
	}
	if !files {
		return fmt.Errorf("%w: all inodes of its file system are in use", ErrFull)
	}
	r.mu.Lock()
	r.grown += n
	r.since += n
	due := r.since > mib
	if due {
		r.since = 0
	}
	r.mu.Unlock()
	if due {
		r.Refill()
	}
	return nil
}

// AboveFloor reports whether the free space is above the floor.
func (r *Room) AboveFloor() bool {
	free, total, err := r.Free()
	return err == nil && free >= r.Floor(total)
}

// ForFlush makes room for opening and closing, when Badger writes its memtables as tables. It
// deletes the ballast if necessary.
func (r *Room) ForFlush() error {
	if r.opt.ReadOnly {
		return nil
	}
	enough := r.enough()
	free, _, err := r.Free()
	if err != nil || free >= enough {
		return err
	}
	if err := os.Remove(r.ballast()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("release ballast: %w", err)
	}
	free, _, err = r.Free()
	if err != nil {
		return err
	}
	if free < enough {
		return fmt.Errorf("%w: %d MiB free, %d MiB are needed to open or close it", ErrFull, free/mib, enough/mib)
	}
	return nil
}

// enough returns the space for opening or closing. The logs become tables, which may be merged with
// existing ones.
func (r *Room) enough() int64 { return min(max(2*r.Tables(), 4*mib), 16*mib) }

// Refill creates the ballast again when there is room for it above the floor. The ballast is twice
// as large as the space that enough returns. Until it exists, its size counts as used. Otherwise
// the store would fill the space that was freed to open it.
func (r *Room) Refill() {
	if r.opt.ReadOnly || r.opt.Ballast < 0 {
		return
	}
	free, total, err := r.Free()
	if err != nil {
		return
	}
	size, have := min(r.opt.Ballast, total/8, 2*r.enough()), int64(0)
	if st, err := os.Stat(r.ballast()); err == nil {
		have = st.Size()
	}
	if have >= size {
		r.spent.Store(0)
		if have >= 2*size { // an earlier version made it, or the store has shrunk
			_ = os.Truncate(r.ballast(), size)
		}
		return
	}
	r.spent.Store(size - have)
	if free < r.Floor(total)+(size-have)*3/2 {
		return
	}
	f, err := os.OpenFile(r.ballast(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	err = preallocate(f, size)
	f.Close()
	if err != nil {
		if os.Truncate(r.ballast(), have); have == 0 {
			os.Remove(r.ballast())
		}
		return
	}
	r.spent.Store(0)
}

// Usage returns the allocated size of the directory without the ballast. Shared files count in part
// (see allocated). Measuring reads the stat of every file, so Usage measures again only after 2 s
// or 16 MiB, or if fresh is set.
func (r *Room) Usage(now time.Time, fresh bool) int64 {
	r.mu.Lock()
	size, ok := r.size+r.grown, !fresh && r.grown < 16*mib && now.Sub(r.sized) < 2*time.Second && now.After(r.sized)
	r.mu.Unlock()
	if ok {
		return size
	}
	sum := allocated(r.dir, nil)
	r.mu.Lock()
	r.size, r.sized = sum, now
	r.grown = 0
	r.mu.Unlock()
	return sum
}

// Tables returns the allocated size of Badger's tables and of the logs that will become tables.
func (r *Room) Tables() int64 {
	return r.sizes(filepath.Join("db", "*.sst"), filepath.Join("db", "*.mem"))
}

// Packs returns the allocated size of the pack files. Shared files count in full.
func (r *Room) Packs() int64 { return r.sizes(filepath.Join(PacksDir, "*")) }

func (r *Room) sizes(patterns ...string) (sum int64) {
	for _, pattern := range patterns {
		files, _ := filepath.Glob(filepath.Join(r.dir, pattern))
		for _, f := range files {
			var st unix.Stat_t
			if unix.Lstat(f, &st) == nil {
				sum += st.Blocks * 512
			}
		}
	}
	return sum
}
