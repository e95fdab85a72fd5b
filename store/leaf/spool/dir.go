package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
)

const (
	spareName   = "spare.seg"
	reserveName = "reserve"
	lockName    = "writer.lock"
)

// ErrLocked means that another live Writer has the spool open.
var ErrLocked = errors.New("another mountd is writing to this spool")

func segmentName(first uint64) string { return fmt.Sprintf("log-%016d.seg", first) }
func contentName(n uint32) string     { return fmt.Sprintf("content-%08d.dat", n) }

func numberIn(name, prefix, suffix string) (uint64, bool) {
	if !strings.HasPrefix(name, prefix) || !strings.HasSuffix(name, suffix) || len(name) < len(prefix)+len(suffix) {
		return 0, false
	}
	n, err := strconv.ParseUint(name[len(prefix):len(name)-len(suffix)], 10, 64)
	return n, err == nil
}

type listing struct {
	segments []uint64 // first Seqs, ascending
	contents []uint32 // ascending
	size     int64    // bytes in segments and content files
}

// list reads the directory. Sizes are optional because they cost a stat per file.
func list(dir string, sizes bool) (listing, error) {
	var l listing
	entries, err := os.ReadDir(dir)
	if err != nil {
		return l, fmt.Errorf("list spool: %w", err)
	}
	for _, e := range entries {
		if n, ok := numberIn(e.Name(), "log-", ".seg"); ok {
			l.segments = append(l.segments, n)
		} else if n, ok := numberIn(e.Name(), "content-", ".dat"); ok && n <= 1<<32-1 {
			l.contents = append(l.contents, uint32(n))
		} else {
			continue
		}
		if sizes {
			if fi, err := e.Info(); err == nil {
				l.size += fi.Size()
			}
		}
	}
	sort.Slice(l.segments, func(i, j int) bool { return l.segments[i] < l.segments[j] })
	sort.Slice(l.contents, func(i, j int) bool { return l.contents[i] < l.contents[j] })
	return l, nil
}

// tryLock takes an flock of the given kind without waiting. It returns false if another process
// holds the lock.
func tryLock(f *os.File, how int) (bool, error) {
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		default:
			return false, fmt.Errorf("lock %s: %w", filepath.Base(f.Name()), err)
		}
	}
}

// syncDir makes creations and renames in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
