package survey

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/cmd/cachebro/daemon/versions"
	"cachebro/store"
	"cachebro/store/leaf/loop"
	"cachebro/store/wire"
)

// refreshWait bounds the scan of every file before a query if nothing is mounted.
const refreshWait = 2 * time.Second

// Update brings the log up to date with the present state of a path. It waits for the spool.
// If nothing is mounted, it looks at the file or, for a directory, at everything.
func (s *Survey) Update(ctx context.Context, p store.Path) {
	s.Ingest.WaitHead(ctx, ingest.QueryWait)
	s.lookUnmounted(ctx, p)
}

// UpdateSoon is Update for requests such as log, which show whatever is recorded. It waits for the
// spool only if little is left to ingest. behind is about how many records are still missing.
func (s *Survey) UpdateSoon(ctx context.Context, p store.Path) (behind uint64) {
	behind = s.Ingest.Await(ctx, ingest.QueryWait)
	s.lookUnmounted(ctx, p)
	return behind
}

func (s *Survey) lookUnmounted(ctx context.Context, p store.Path) {
	if p == "" || s.Absent || s.Mounted() {
		return
	}
	_, err := s.Look(ctx, p) // an unreported change becomes a version
	if isDir, _ := versions.KnownDir(s.Store, p); errors.Is(err, wire.ErrIsDir) || err != nil && isDir {
		s.TryUpdateAll(ctx)
	}
}

// TryUpdateAll is UpdateAll for requests that have called Update or UpdateSoon. A failure is only
// logged, because an answer without the newest changes is better than no answer.
func (s *Survey) TryUpdateAll(ctx context.Context) {
	if err := s.updateUnwatched(ctx); err != nil {
		s.Log.Warn("unreported changes cannot be found", "err", err)
	}
}

// LookAtAll waits until the newest content of every file is in the log. It waits for files
// closed on the mount, and scans every file if nothing is mounted, the mount is new, or the
// mount can be bypassed. missing says why some content is not in the log.
func (s *Survey) LookAtAll(ctx context.Context) (missing string, err error) {
	if s.Absent {
		return "", nil
	}
	for !s.Ingest.WaitHead(ctx, 100*time.Millisecond) {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		if ok, reason := s.Ingest.Health(); !ok {
			return "the newest files may be missing: " + reason, nil
		}
		if err := s.Ingest.HeadError(); err != nil {
			return "the newest files may be missing: " + err.Error(), nil
		}
	}
	if s.mount.unwatched() {
		s.baseline.request(true)
	}
	for s.Scanning() {
		if ok, reason := s.Ingest.Health(); !ok {
			return "files are missing: " + reason, nil
		}
		if !loop.Pause(ctx, 2*time.Millisecond) {
			return "", ctx.Err()
		}
	}
	if st := s.Progress(); !st.Done {
		return fmt.Sprintf("files are missing: only %d could be looked at; see %s", st.Files, wire.LogFile(s.State)), nil
	}
	return "", nil
}

// Refresh records the files closed before the call, and waits for a scan in progress. Without a mount
// it also checks the stat of every file, unless noScan is set. warning says what may be missing.
func (s *Survey) Refresh(ctx context.Context, noScan bool) (warning string) {
	return s.refresh(ctx, noScan, refreshWait)
}

// scanWait bounds the scan of every file before a plan, and before an answer about documents if
// nothing is mounted. It is generous, because "in sync" is true only if every file was checked.
const scanWait = 25 * time.Second

// RefreshWhole is Refresh for a caller that would rather wait than miss a file.
func (s *Survey) RefreshWhole(ctx context.Context) string { return s.refresh(ctx, false, scanWait) }

func (s *Survey) refresh(ctx context.Context, noScan bool, within time.Duration) (warning string) {
	behind := s.Ingest.Await(ctx, ingest.QueryWait)
	mounted := s.Mounted()
	late := fmt.Sprintf("files are being looked for, which takes longer than %.0f s, so some may be missing", within.Seconds())
	switch {
	case s.Absent:
		return ""
	case noScan && !mounted:
		return "not mounted, and changed files were not searched for, as requested; changes since the last search may be missing"
	case !mounted:
		late = fmt.Sprintf("not mounted, and looking for changed files takes longer than %.0f s, so the newest changes may be missing", within.Seconds())
		s.baseline.request(true)
	}
	for end := time.Now().Add(within); s.Scanning(); {
		if time.Now().After(end) {
			return late
		}
		if !loop.Pause(ctx, 2*time.Millisecond) {
			return ""
		}
	}
	if behind > 0 {
		return s.Ingest.Behind()
	}
	return ""
}
