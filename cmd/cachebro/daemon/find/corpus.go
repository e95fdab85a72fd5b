package find

import (
	"context"

	"cachebro/cmd/cachebro/daemon/source"
	"cachebro/search"
	"cachebro/store"
	"cachebro/store/leaf/ignore"
	"cachebro/store/leaf/loop"
)

// corpus is what the search index reads: the version log, and the files in the source directory,
// bypassing the mount.
type corpus struct {
	*store.Store // the log and the contents
	source       *source.Source
	life         context.Context // of the daemon
}

var _ search.Corpus = corpus{}

// Secret implements search.Corpus.
func (c corpus) Secret(p store.Path) bool { return ignore.Secret(string(p)) }

// LiveAfter implements search.Corpus.
func (c corpus) LiveAfter(after store.Path, fn func(store.Version) error) error {
	return c.View(func(v *store.View) error { return v.LiveAfter(after, fn) })
}

// Read returns a regular file's bytes, in buf if they fit. It returns fs.ErrNotExist if the
// path is not a regular file now.
func (c corpus) Read(p store.Path, buf []byte) ([]byte, error) {
	dir, err := c.source.Acquire(c.life)
	if err != nil {
		return nil, err
	}
	defer c.source.Release(dir)
	return readBeneath(dir.File, string(p), buf)
}

// Run keeps the index up to date with the version log. The first indexing waits for the baseline,
// because until then the disk is busy and the log contains few files.
func (f *Finder) Run(ctx context.Context) {
	if !f.Index.Stats().Ready {
		for f.Store.Seq() == 0 || f.Survey.Scanning() {
			select {
			case <-ctx.Done():
				return
			case <-f.news:
			}
		}
	}
	f.Index.Start(ctx)
	<-ctx.Done()
}

// Poke notifies the index of new versions, or of a complete baseline. It never blocks.
func (f *Finder) Poke() {
	loop.Wake(f.news)
	f.Index.Poke()
}

// NewCorpus returns the corpus of the project, which an index can read until life ends.
func NewCorpus(life context.Context, st *store.Store, src *source.Source) search.Corpus {
	return corpus{Store: st, source: src, life: life}
}
