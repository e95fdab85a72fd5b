package bundle

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"cachebro/store"
	"cachebro/store/knowledge/manifest"

	"github.com/fxamacker/cbor/v2"
	"golang.org/x/sync/errgroup"
)

type keptRow struct {
	Version int        `cbor:"1,keyasint"`
	Blob    store.Hash `cbor:"2,keyasint"`
	Facts   Facts      `cbor:"3,keyasint"`
	Build   string     `cbor:"4,keyasint,omitempty"` // the build of the program that made the row
}

// rowPrefix and PairPrefix are the prefixes of the keys of rows and pairs in a KV.
const (
	rowPrefix  = "row\x00"
	PairPrefix = "pair\x00"
)

// Follow brings the graph up to date with the log.
func (g *Graph) Follow(ctx context.Context) error {
	want := g.o.Source.Seq()
	g.mu.Lock()
	done := g.built && g.seq >= want
	g.mu.Unlock()
	if done {
		return nil
	}
	if err := g.acquireTurn(ctx); err != nil {
		return err
	}
	defer g.release()
	g.mu.Lock()
	built, seq := g.built, g.seq
	g.mu.Unlock()
	if !built {
		return g.build(ctx)
	}
	const page = 1000
	for seq < g.o.Source.Seq() {
		vs, err := g.o.Source.Since(seq, page)
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		if len(vs) == 0 {
			return nil
		}
		seq = vs[len(vs)-1].Seq
		newest := map[store.Path]int{}
		for i, v := range vs {
			newest[v.Path] = i
		}
		var last []store.Version
		for i, v := range vs {
			if newest[v.Path] == i {
				last = append(last, v)
			}
		}
		rows, err := g.rows(ctx, last, nil)
		if err != nil {
			return err
		}
		g.mu.Lock()
		g.applyLocked(rows)
		g.seq = seq
		g.mu.Unlock()
	}
	return nil
}

// acquireTurn waits until no other goroutine follows the log.
func (g *Graph) acquireTurn(ctx context.Context) error {
	select {
	case g.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *Graph) release() { <-g.turn }

// Forget removes the rows of path and of its subtree from the graph and from storage. The graph
// reads no content until release is called, so that the caller can delete the contents in the
// meantime.
func (g *Graph) Forget(ctx context.Context, path string) (release func(), err error) {
	if err := g.acquireTurn(ctx); err != nil {
		return nil, err
	}
	below := func(p string) bool { return store.Path(p).Inside(store.Path(path)) }
	rows := map[string][]byte{}
	if g.o.Rows != nil {
		err := g.o.Rows.Scan(rowPrefix+path, func(key string, _ []byte) error {
			if below(strings.TrimPrefix(key, rowPrefix)) {
				rows[key] = nil
			}
			return nil
		})
		if err != nil {
			g.release()
			return nil, fmt.Errorf("read the rows of the graph: %w", err)
		}
	}
	g.keep(rows)
	g.mu.Lock()
	defer g.mu.Unlock()
	for p, e := range g.files {
		if below(p) {
			e.facts = &Facts{}
			g.stale[p] = struct{}{}
		}
	}
	g.modulesLocked()
	g.applyLocked(nil)
	return g.release, nil
}

// build makes the graph from the present files, using the stored rows.
func (g *Graph) build(ctx context.Context) error {
	kept := map[string]keptRow{}
	if g.o.Rows != nil {
		err := g.o.Rows.Scan(rowPrefix, func(key string, val []byte) error {
			var k keptRow
			if cbor.Unmarshal(val, &k) == nil && k.Version == factsVersion && k.Build == g.o.Build {
				kept[strings.TrimPrefix(key, rowPrefix)] = k
			}
			return ctx.Err()
		})
		if err != nil {
			return fmt.Errorf("read the rows of the graph: %w", err)
		}
	}
	seq := g.o.Source.Seq()
	var live []store.Version
	err := g.o.Source.Live("", func(v store.Version) error {
		live = append(live, v)
		return ctx.Err()
	})
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	rows, err := g.rows(ctx, live, kept)
	if err != nil {
		return err
	}
	gone := map[string][]byte{}
	for p := range kept {
		gone[rowPrefix+p] = nil
	}
	g.keep(gone) // kept now contains only rows that were not used
	g.mu.Lock()
	g.applyLocked(rows)
	g.seq, g.built = seq, true
	g.mu.Unlock()
	return nil
}

// rows returns the rows of versions. It reads contents in parallel, and stores new rows.
func (g *Graph) rows(ctx context.Context, vs []store.Version, kept map[string]keptRow) ([]row, error) {
	out := make([]row, len(vs))
	var read []int
	for i, v := range vs {
		out[i].v = v
		if !g.isNode(v) {
			continue
		}
		p := string(v.Path)
		k, ok := kept[p]
		if ok && k.Blob == v.Blob {
			out[i].facts = &k.Facts
			delete(kept, p)
		}
		if !ok || k.Blob != v.Blob || p == manifest.Name {
			read = append(read, i)
		}
	}
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(runtime.GOMAXPROCS(0))
	for _, i := range read {
		eg.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			g.read(&out[i])
			return nil
		})
	}
	if err := eg.Wait(); err != nil {
		return nil, err
	}
	save := map[string][]byte{}
	for _, v := range vs {
		key := rowPrefix + string(v.Path)
		if !g.isNode(v) {
			if kept == nil {
				save[key] = nil
			}
			continue
		}
		delete(kept, string(v.Path))
	}
	for _, i := range read {
		v := out[i].v
		if raw, err := cbor.Marshal(keptRow{factsVersion, v.Blob, *out[i].facts, g.o.Build}); err == nil && len(raw) < 256<<10 {
			save[rowPrefix+string(v.Path)] = raw
		}
	}
	g.keep(save)
	return out, nil
}

// read fills in a row from the content of its version. If the content is missing, the row stays
// empty until the path has another version.
func (g *Graph) read(r *row) {
	r.facts = &Facts{}
	if r.v.Blob == (store.Hash{}) {
		return
	}
	content, err := g.o.Source.Content(r.v.Blob)
	if err != nil {
		g.o.Warn("read a content for the graph", err)
		return
	}
	f := factsOf(string(r.v.Path), content)
	r.facts = &f
	if string(r.v.Path) == manifest.Name {
		r.text = content
	}
}

// keep stores rows in several transactions, because the size of a transaction is limited.
func (g *Graph) keep(rows map[string][]byte) {
	if g.o.Rows == nil {
		return
	}
	part, size := map[string][]byte{}, 0
	flush := func() {
		if len(part) == 0 {
			return
		}
		if err := g.o.Rows.SetAll(part); err != nil {
			g.o.Warn("store the rows of the graph", err)
		}
		part, size = map[string][]byte{}, 0
	}
	for key, val := range rows {
		part[key] = val
		if size += len(key) + len(val); len(part) >= 200 || size > 256<<10 {
			flush()
		}
	}
	flush()
}
