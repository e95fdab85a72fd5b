package tidy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"cachebro/store"
	"cachebro/store/keep"
	"cachebro/store/leaf/spool"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

// purgeWait bounds how long a purge waits for the spool to be ingested.
const purgeWait = 30 * time.Second

// purge removes the contents of a path from everything that the daemon stores: cached answers and
// bundles, the store, the spool, the index. The result lists what it cannot reach.
func (td *Tidy) purge(ctx context.Context, p store.Path) (keep.Purged, error) {
	var unreached []string
	late := !td.Ingest.WaitHead(ctx, purgeWait)
	if late {
		unreached = append(unreached, "changes that are not in the store yet; purge again once cachebro status shows no problem")
	}
	// The answers are cleared first, because the store then rewrites the files that held them.
	unreached = append(unreached, td.Answers.Clear(ctx)...)
	release, err := td.Knowledge.Forget(ctx, p)
	if err != nil {
		return keep.Purged{}, err
	}
	defer release()
	r, err := td.keep.Purge(ctx, p)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return r, err
	}
	if serr := td.Store.Sync(); serr != nil {
		return r, serr
	}
	erased, serr := spool.Erase(wire.SpoolDir(td.State), td.Ingest.Position(), func(rec *spool.Record) bool {
		return beneath(rec.Path, string(p)) || rec.Path2 != "" && beneath(rec.Path2, string(p))
	})
	if serr != nil {
		unreached = append(unreached, fmt.Sprintf("the spool: %v", serr))
	}
	if err != nil && erased == 0 {
		return r, err
	}
	if ierr := td.Index.Reset(); ierr != nil {
		unreached = append(unreached, fmt.Sprintf("the search index: %v", ierr))
	}
	td.Changed()
	r.Spooled = erased
	kept := wire.GitDir(td.State)
	if names, err := os.ReadDir(kept); err == nil && len(names) > 0 {
		unreached = append(unreached, "what git removed and cachebro undo --git may need, such as objects with the content; to delete all of it: rm -r "+onwire.ShellName(store.Path(kept)))
	}
	r.Unreached = append(append(unreached, r.Unreached...), "command lines, prompts, notes, comments and reports of lost updates that mention it",
		"exports, and copies in a remote, that were made before")
	return r, nil
}

func beneath(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }
