package plans

import (
	"context"
	"errors"
	"fmt"

	"cachebro/store"
	"cachebro/store/daemon/ingest"
	"cachebro/store/daemon/source"
	"cachebro/store/undo"
)

const (
	// maxSecured is how many bytes one plan may bring into the store before it deletes
	// or overwrites them: as many as the store keeps of ignored files by default.
	maxSecured = int64(512) << 20
	// secureBatch is how many bytes are held in memory.
	secureBatch = int64(64) << 20
)

// secureFor brings into the store the present contents of files that a plan would
// destroy and nobody captured: ignored files, and those of a gap.
func (pl *Plans) secureFor(ctx context.Context) undo.Secure {
	return func(vs []store.Version) map[store.Path]string {
		out := map[store.Path]string{}
		var batch []store.Found
		var bytes, all int64
		flush := func() {
			if err := pl.fill(ctx, batch); err != nil {
				for _, f := range batch {
					out[f.Version.Path] = err.Error()
				}
			}
			batch, bytes = batch[:0], 0
		}
		for _, v := range vs {
			if all+v.Stat.Size > maxSecured {
				out[v.Path] = fmt.Sprintf("the plan would bring more than %d MiB into the history", maxSecured>>20)
				continue
			}
			content, err := pl.presentOf(ctx, v)
			if err != nil {
				out[v.Path] = err.Error()
				continue
			}
			batch = append(batch, store.Found{Version: v, Content: content})
			bytes, all = bytes+v.Stat.Size, all+v.Stat.Size
			if bytes >= secureBatch || len(batch) >= ingest.BatchChanges {
				flush()
			}
		}
		flush()
		return out
	}
}

func (pl *Plans) fill(ctx context.Context, batch []store.Found) error {
	return pl.ingest.Exclusive(func() error { return pl.store.Fill(ctx, batch) })
}

var errBeingWritten = errors.New("it is being written")

// asWritten reports whether it is the same file, not written since. Its name and mode may
// differ.
func asWritten(a, b store.Stat) bool {
	return a.Ino == b.Ino && a.Dev == b.Dev && a.Birth == b.Birth && a.Size == b.Size && a.Mtime == b.Mtime
}

// presentOf reads the file that a version, the newest of its path, describes.
func (pl *Plans) presentOf(ctx context.Context, v store.Version) ([]byte, error) {
	f, st, err := pl.source.Open(ctx, v.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !asWritten(v.Stat, st) || pl.ingest.Writing(v.Path) {
		return nil, errBeingWritten
	}
	content, after, err := source.ReadStable(f, st)
	if err == nil && !asWritten(after, st) {
		err = errBeingWritten
	}
	return content, err
}
