package space

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// StoreSize is the space of one of a user's stores.
type StoreSize struct {
	Used  int64     // allocated bytes without the ballast; shared pack files count in part
	Wrote time.Time // when something was last stored
}

// idleAfter is the time without writes after which a store counts as idle. Its share may then
// shrink to one idleShare-th of the share of other stores.
const (
	idleAfter = 7 * 24 * time.Hour
	idleShare = 4
)

// wroteFile is a file in a store's directory whose mtime is the time of the last Apply, accurate to
// wroteEvery. Badger's own files also change when the store is only opened.
const (
	wroteFile  = "wrote"
	wroteEvery = time.Hour
)

// NoteWrote records the time of an Apply. If it fails, the store's idle time is overestimated.
func (r *Room) NoteWrote(now time.Time) error {
	r.mu.Lock()
	past := now.Sub(r.wrote)
	due := past < 0 || past >= wroteEvery
	if due {
		r.wrote = now
	}
	r.mu.Unlock()
	if !due {
		return nil
	}
	name := filepath.Join(r.dir, wroteFile)
	err := os.Chtimes(name, now, now)
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.Join(os.WriteFile(name, nil, 0o600), os.Chtimes(name, now, now))
	}
	return err
}

// The location of pack files in a store's directory. Stores may share these files.
const (
	PacksDir = "packs"
	PackExt  = ".pack"
)

// Measure measures a store's directory, open or not. It returns the zero value if the directory is
// missing. It costs one lstat per file.
func Measure(dir string) (h StoreSize) {
	var newest time.Time
	h.Used = allocated(dir, func(name string, st *unix.Stat_t) {
		at := time.Unix(st.Mtim.Unix())
		if name == filepath.Join(dir, wroteFile) {
			h.Wrote = at
		} else if at.After(newest) {
			newest = at
		}
	})
	if h.Wrote.IsZero() {
		h.Wrote = newest
	}
	return h
}

// allocated sums up the files in dir's subtree without the ballast. A pack file that n stores share
// counts as one nth in each.
func allocated(dir string, each func(name string, st *unix.Stat_t)) (sum int64) {
	ballast := filepath.Join(dir, ballastFile)
	filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || p == ballast {
			return nil // files come and go while Badger compacts
		}
		var st unix.Stat_t
		if unix.Lstat(p, &st) == nil {
			n := st.Blocks * 512
			if filepath.Ext(p) == PackExt {
				n /= max(1, int64(st.Nlink))
			}
			sum += n
			if each != nil {
				each(p, &st)
			}
		}
		return nil
	})
	return sum
}

// Shared measures the pack files that other stores have as well. all is their size, and elsewhere
// is the part of it that StoreSize.Used counts in the other stores.
func Shared(dir string) (all, elsewhere int64) {
	files, _ := filepath.Glob(filepath.Join(dir, PacksDir, "*"+PackExt)) // the pattern is valid
	for _, f := range files {
		var st unix.Stat_t
		if unix.Lstat(f, &st) == nil && st.Nlink > 1 {
			n := st.Blocks * 512
			all, elsewhere = all+n, elsewhere+n-n/int64(st.Nlink)
		}
	}
	return all, elsewhere
}

// Allot divides a cap among stores and returns what each may take. If all fit, each may also take
// the remaining space. Otherwise the largest stores are reduced to a common level, and idle stores
// to a quarter of it. So an active project can always have limit/n and an idle one limit/4n.
func Allot(limit int64, all []StoreSize, now time.Time) []int64 {
	out := make([]int64, len(all))
	weight := make([]int64, len(all)) // in quarters
	sum := int64(0)
	for i, h := range all {
		sum += h.Used
		weight[i] = idleShare
		if now.Sub(h.Wrote) > idleAfter {
			weight[i] = 1
		}
	}
	if sum <= limit {
		for i, h := range all {
			out[i] = h.Used + limit - sum
		}
		return out
	}
	// Find the level for stores of weight idleShare by bisection.
	need := func(level int64) (n int64) {
		for i, h := range all {
			n += min(h.Used, level*weight[i]/idleShare)
		}
		return n
	}
	low, high := int64(0), limit*idleShare // need(low) fits
	for low < high {
		if mid := low + (high-low+1)/2; need(mid) <= limit {
			low = mid
		} else {
			high = mid - 1
		}
	}
	for i := range all {
		out[i] = min(limit, low*weight[i]/idleShare)
	}
	return out
}
