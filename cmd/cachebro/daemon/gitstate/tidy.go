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

const (
	tidyEvery = 10 * time.Minute
)

// usage describes the saved files.
type usage struct {
	counted       time.Time
	files         int
	bytes         int64
	oldest        time.Time
	droppedBefore time.Time // saved files that git lost before this time may have been dropped to make room
}

// keyDropped is the key of usage.droppedBefore. The value is in ns since the epoch, in decimal.
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

// Tidy drops saved files that are too old or exceed the budget, the oldest first.
func (s *Service) Tidy(ctx context.Context) {
	s.mu.Lock()
	due := time.Since(s.usage.counted) > tidyEvery
	s.mu.Unlock()
	if due {
		s.tidy(ctx, time.Now())
	}
}

func (s *Service) tidy(ctx context.Context, now time.Time) {
	u := usage{counted: now}
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
				return
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
			u.files, u.bytes = u.files+1, u.bytes+f.bytes
			if at := time.Unix(0, f.since); u.oldest.IsZero() || at.Before(u.oldest) {
				u.oldest = at
			}
		}
	}
	if dropped > before {
		if err := s.kv.Set(keyDropped, []byte(strconv.FormatInt(dropped, 10))); err != nil {
			s.log.Warn("delete expired copies of git's own files", "err", err)
		}
	}
	if dropped > now.Add(-limits.GitFor).UnixNano() {
		u.droppedBefore = time.Unix(0, dropped)
	}
	if err := s.forget(now.Add(-limits.GitFor)); err != nil {
		s.log.Warn("delete old records of git's own files", "err", err)
	}
	s.mu.Lock()
	s.usage = u
	s.mu.Unlock()
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
			return errNone
		}
		gone[k] = nil
		return nil
	})
	if len(gone) == 0 || err != nil && !errors.Is(err, errNone) {
		if errors.Is(err, errNone) {
			err = nil
		}
		return err
	}
	return s.kv.SetAll(gone)
}

// Usage returns how much is saved, or nil if nothing is. The figures may be some minutes old.
func (s *Service) Usage(ctx context.Context) *wire.GitKept {
	s.mu.Lock()
	u := s.usage
	s.mu.Unlock()
	if u.files == 0 || time.Since(u.counted) > tidyEvery {
		s.tidy(ctx, time.Now())
		s.mu.Lock()
		u = s.usage
		s.mu.Unlock()
	}
	if u.files == 0 && u.droppedBefore.IsZero() {
		return nil
	}
	return &wire.GitKept{Files: u.files, Bytes: u.bytes, Oldest: u.oldest, Wants: u.droppedBefore, MaxBytes: s.budget, MaxDays: int(limits.GitFor / (24 * time.Hour))}
}
