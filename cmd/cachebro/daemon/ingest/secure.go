package ingest

import (
	"context"
	"errors"
	"fmt"

	"cachebro/cmd/cachebro/daemon/source"
	"cachebro/store"
)

// secureBatch is how many bytes Secure collects in memory before it stores them.
const secureBatch = int64(64) << 20

// Secure stores the present contents of the files in vs, whose newest versions have no content. The
// parameter most bounds the stored bytes. Secure returns the reason for each path that it did not
// store.
func (g *Ingester) Secure(ctx context.Context, vs []store.Version, most int64) map[store.Path]string {
	out := map[store.Path]string{}
	var batch []store.Found
	var bytes, all int64
	flush := func() {
		if err := g.Exclusive(func() error { return g.store.Fill(ctx, batch) }); err != nil {
			for _, f := range batch {
				out[f.Version.Path] = err.Error()
			}
		}
		batch, bytes = batch[:0], 0
	}
	for _, v := range vs {
		if all+v.Stat.Size > most {
			out[v.Path] = fmt.Sprintf("it would add more than %d MiB to the history", most>>20)
			continue
		}
		content, err := g.presentOf(ctx, v)
		if err != nil {
			out[v.Path] = err.Error()
			continue
		}
		batch = append(batch, store.Found{Version: v, Content: content})
		bytes, all = bytes+v.Stat.Size, all+v.Stat.Size
		if bytes >= secureBatch || len(batch) >= BatchChanges {
			flush()
		}
	}
	flush()
	return out
}

var errBeingWritten = errors.New("it is being written")

// asWritten reports whether a and b describe the same file, which was not written in between. Its
// name and mode may differ.
func asWritten(a, b store.Stat) bool {
	return store.InodeOf(a) == store.InodeOf(b) && a.Size == b.Size && a.Mtime == b.Mtime
}

// presentOf reads the file described by a version, which must be the newest of its path.
func (g *Ingester) presentOf(ctx context.Context, v store.Version) ([]byte, error) {
	f, st, err := g.source.Open(ctx, v.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !asWritten(v.Stat, st) || g.Writing(v.Path) {
		return nil, errBeingWritten
	}
	content, after, err := source.ReadStable(f, st)
	if err == nil && !asWritten(after, st) {
		err = errBeingWritten
	}
	return content, err
}
