package gitstate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"cachebro/store/leaf/limits"
	"cachebro/store/wire"

	"golang.org/x/sys/unix"
)

const tidyEvery = 10 * time.Minute

// usage describes the saved files.
type usage struct {
	wire.GitKept
	counted time.Time
}

// keyDropped is the key under which GitKept.Wants is stored, in ns since the epoch, in decimal.
const keyDropped = "wants"

// droppedBefore returns, in ns, the time before which saved files may have been dropped to make
// room.
func (s *Service) droppedBefore() (ns int64) {
	if b, ok, err := s.kv.Get(keyDropped); err == nil && ok {
		ns, _ = strconv.ParseInt(string(b), 10, 64)
	}
	return ns
}

// shortOf reports whether less than a tenth of the file system is free.
func shortOf(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Bavail < st.Blocks/10
}

type keptFile struct {
	path  string
	bytes int64
	since int64 // ns, when it was saved
}

// tidy drops saved files that are too old or exceed the budget, the oldest first.
func (s *Service) tidy(ctx context.Context, now time.Time) usage {
	u := usage{wire.GitKept{MaxBytes: s.budget, MaxDays: int(limits.GitFor / (24 * time.Hour))}, now}
	short, before := shortOf(s.dir), s.droppedBefore()
	dropped := before
	for _, part := range []struct {
		name  string
		bytes int64
	}{{"files", s.budget / 4}, {"objects", s.budget - s.budget/4}} {
		held := int64(0)
		all := keptBelow(filepath.Join(s.dir, part.name))
		slices.SortFunc(all, func(a, b keptFile) int { return cmp.Compare(b.since, a.since) })
		for _, f := range all {
			if ctx.Err() != nil {
				return u
			}
			age := time.Duration(now.UnixNano() - f.since)
			mayGo := part.name != "objects" || age > limits.GitFresh || short
			if age > limits.GitFor || held+f.bytes > part.bytes && mayGo {
				if err := os.Remove(f.path); err == nil {
					if age <= limits.GitFor {
						dropped = max(dropped, f.since)
					}
					_ = os.Remove(filepath.Dir(f.path)) // succeeds only if the directory is empty
					continue
				}
			}
			held += f.bytes
			u.Files, u.Bytes = u.Files+1, u.Bytes+f.bytes
			if at := time.Unix(0, f.since); u.Oldest.IsZero() || at.Before(u.Oldest) {
				u.Oldest = at
			}
		}
	}
	if dropped > before {
		if err := s.kv.Set(keyDropped, []byte(strconv.FormatInt(dropped, 10))); err != nil {
			s.log.Warn("delete expired copies of git's own files", "err", err)
		}
	}
	if dropped > now.Add(-limits.GitFor).UnixNano() {
		u.Wants = time.Unix(0, dropped)
	}
	if err := s.forget(now.Add(-limits.GitFor)); err != nil {
		s.log.Warn("delete old records of git's own files", "err", err)
	}
	s.mu.Lock()
	s.usage = u
	s.mu.Unlock()
	return u
}

func keptBelow(dir string) (all []keptFile) {
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		var st unix.Stat_t
		if unix.Lstat(p, &st) == nil {
			f := keptFile{p, st.Blocks * 512, st.Ctim.Nano()}
			if st.Nlink > 1 {
				f.bytes = 0 // the file has other links, so dropping this one frees nothing
			}
			all = append(all, f)
		}
		return nil
	})
	return all
}

func (s *Service) forget(before time.Time) error {
	gone := map[string][]byte{}
	end := fmt.Sprintf("r/%08x/", before.UnixNano()/day)
	err := s.kv.Scan("r/", func(k string, _ []byte) error {
		if k >= end || len(gone) >= 5000 {
			return errStopScan
		}
		gone[k] = nil
		return nil
	})
	if err != nil && !errors.Is(err, errStopScan) {
		return err
	}
	return s.kv.SetAll(gone)
}

// Tidy drops saved files that are too old or exceed the budget. It returns how much is saved, or
// nil if nothing is. The figures may be some minutes old.
func (s *Service) Tidy(ctx context.Context) *wire.GitKept {
	s.mu.Lock()
	u := s.usage
	s.mu.Unlock()
	if u.Files == 0 || time.Since(u.counted) > tidyEvery {
		u = s.tidy(ctx, time.Now())
	}
	if u.Files == 0 && u.Wants.IsZero() {
		return nil
	}
	return &u.GitKept
}
