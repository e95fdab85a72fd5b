package store

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

// Stopped says since when and why nothing is stored.
type Stopped struct {
	Since  time.Time
	Reason string
}

// room watches the file system below the store. Badger writes through mapped
// files: on a full disk the process dies of SIGBUS, which Go cannot recover.
// So every write asks here first, and a preallocated ballast file is given
// back when a store has to be opened on a full disk.
type room struct {
	dir string
	opt Options

	// spent is the ballast that was given back and is not ours to write into.
	spent atomic.Int64

	// mu guards size, sized and grown.
	mu    sync.Mutex
	size  int64     // of the directory, when last measured
	sized time.Time // when that was
	grown int64     // bytes accepted since
}

func newRoom(dir string, o Options) *room { return &room{dir: dir, opt: o} }

// ballastFile is its name in the store's directory.
const ballastFile = "ballast"

func (r *room) ballast() string { return filepath.Join(r.dir, ballastFile) }

// free returns the bytes an ordinary user may still allocate, and the size of
// the file system.
func (r *room) free() (free, total int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(r.dir, &st); err != nil {
		return 0, 0, fmt.Errorf("statfs %s: %w", r.dir, err)
	}
	bs := int64(st.Bsize)
	return int64(st.Bavail) * bs, int64(st.Blocks) * bs, nil
}

// floor is the free space below which nothing is written.
func (r *room) floor(total int64) int64 {
	f := r.opt.MinFree
	if f == 0 {
		f = min(2*gib, total/20)
	}
	return max(f, badgerReserve)
}

// check answers ErrNoSpace unless n more bytes can be written and the floor
// stays free.
func (r *room) check(n int64) error {
	if r.opt.ReadOnly {
		return fmt.Errorf("%w: the store is open for reading only", ErrNoSpace)
	}
	free, total, err := r.free()
	if err != nil {
		return err
	}
	if floor := r.floor(total) + r.spent.Load(); free < floor+2*n {
		return fmt.Errorf("%w: %d MiB free, %d MiB are left alone", ErrNoSpace, free/mib, floor/mib)
	}
	r.mu.Lock()
	r.grown += n
	r.mu.Unlock()
	return nil
}

// HasRoom reports whether the free space is above the floor that is left alone.
func (s *Store) HasRoom() bool {
	free, total, err := s.room.free()
	return err == nil && free >= s.room.floor(total)
}

// forFlush makes room for opening and closing, when Badger writes its memtables
// out as tables, by giving up the ballast if need be.
func (r *room) forFlush() error {
	if r.opt.ReadOnly {
		return nil
	}
	const enough = 16 * mib
	free, _, err := r.free()
	if err != nil || free >= enough {
		return err
	}
	if err := os.Remove(r.ballast()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("release ballast: %w", err)
	}
	if free, _, err = r.free(); err != nil {
		return err
	}
	if free < enough {
		return fmt.Errorf("%w: %d MiB free, %d MiB are needed to open or close it", ErrNoSpace, free/mib, enough/mib)
	}
	return nil
}

// refill sets the ballast aside again when there is room for it above the
// floor; until then its size counts as taken, or the store would fill what was
// given back to open it.
func (r *room) refill() {
	if r.opt.ReadOnly || r.opt.Ballast < 0 {
		return
	}
	free, total, err := r.free()
	if err != nil {
		return
	}
	size := min(r.opt.Ballast, total/8)
	if st, err := os.Stat(r.ballast()); err == nil && st.Size() > 0 {
		r.spent.Store(0)
		return
	}
	r.spent.Store(size)
	if free < r.floor(total)+size+size/2 {
		return
	}
	f, err := os.OpenFile(r.ballast(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	err = preallocate(f, size)
	f.Close()
	if err != nil {
		os.Remove(r.ballast())
		return
	}
	r.spent.Store(0)
}

// usage is the allocated size of the directory without the ballast, of shared
// files the part that is counted here (see allocated); measured
// at most every 2 s or after 16 MiB, since it looks at every file.
func (r *room) usage(now time.Time, fresh bool) int64 {
	r.mu.Lock()
	size, ok := r.size+r.grown, !fresh && r.grown < 16*mib && now.Sub(r.sized) < 2*time.Second && now.After(r.sized)
	r.mu.Unlock()
	if ok {
		return size
	}
	sum := allocated(r.dir, nil)
	r.mu.Lock()
	r.size, r.sized, r.grown = sum, now, 0
	r.mu.Unlock()
	return sum
}

// tables is the allocated size of Badger's tables and of the logs that will
// become tables.
func (r *room) tables() int64 {
	return r.sizes(filepath.Join("db", "*.sst"), filepath.Join("db", "*.mem"))
}

// packs is the allocated size of the pack files, shared ones in full.
func (r *room) packs() int64 { return r.sizes(filepath.Join(packsDir, "*")) }

func (r *room) sizes(patterns ...string) (sum int64) {
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

func isNoSpace(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}
