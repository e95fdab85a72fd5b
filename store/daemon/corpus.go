package daemon

import (
	"context"

	"cachebro/fusefs/ignore"
	"cachebro/search"
	"cachebro/store"
)

// corpus is what the search index reads from: the version log, and the files as
// they are on the source, never through the mount.
type corpus struct{ d *Daemon }

var _ search.Corpus = corpus{}

func (c corpus) Since(seq uint64, limit int) ([]store.Version, error) {
	return c.d.store.Since(seq, limit)
}
func (c corpus) Seq() uint64 { return c.d.store.Seq() }
func (c corpus) Live(prefix store.Path, fn func(store.Version) error) error {
	return c.d.store.Live(prefix, fn)
}
func (c corpus) Content(h store.Hash) ([]byte, error) { return c.d.store.Content(h) }
func (c corpus) Secret(p store.Path) bool             { return ignore.Secret(string(p)) }

// Read returns a regular file's bytes, in buf where it has room; fs.ErrNotExist
// also where something else stands now.
func (c corpus) Read(p store.Path, buf []byte) ([]byte, error) {
	dir, err := c.d.source.Acquire(c.d.life)
	if err != nil {
		return nil, err
	}
	defer c.d.source.Release(dir)
	return readBeneath(dir.File, string(p), buf)
}

// followIndex keeps the index after the version log. The first index waits for
// the baseline: before, there is little to index and the disk is busy.
func (d *Daemon) followIndex(ctx context.Context) {
	if !d.index.Stats().Ready {
		for d.store.Seq() == 0 || d.survey.Scanning() {
			select {
			case <-ctx.Done():
				return
			case <-d.indexNews:
			}
		}
	}
	d.index.Start(ctx)
	<-ctx.Done()
}

// pokeIndex tells who follows the log, the index first of all, that there are
// new versions, or that the baseline is complete. Never blocks.
func (d *Daemon) pokeIndex() {
	select {
	case d.indexNews <- struct{}{}:
	default:
	}
	if d.index != nil {
		d.index.Poke()
	}
	d.pokeDocs()
}
