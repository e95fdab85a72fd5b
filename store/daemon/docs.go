package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"cachebro/fusefs/ignore"
	"cachebro/search"
	"cachebro/store"
	"cachebro/store/daemon/onwire"
	"cachebro/store/daemon/versions"
	"cachebro/store/daemon/waits"
	"cachebro/store/knowledge/docsync"
	"cachebro/store/wire"
)

// docsPause is between two batches of versions that the pairs of documents and
// code are brought up to date with; who asks for them does not wait for it.
const docsPause = 500 * time.Millisecond

// openDocs never fails the daemon for a record that cannot be read, or for one that
// there is no room for now.
func (d *Daemon) openDocs() (err error) {
	d.docsNews = make(chan struct{}, 1)
	d.docs, err = docsync.Open(d.store, docsync.Options{
		IsDoc: func(p string) bool { return search.KindOf(p) == search.Doc },
		IsCode: func(p string) bool {
			k := search.KindOf(p)
			return k == search.Code || k == search.Test || k == search.Config
		},
		Busy: func() bool {
			held := d.index.Held()
			if held {
				d.pokeDocs() // to look again after the pause
			}
			return held
		},
	})
	if errors.Is(err, docsync.ErrUnreadable) || errors.Is(err, store.ErrNoSpace) {
		d.log.Warn("documents", "err", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the pairs of documents and code: %w", err)
	}
	return nil
}

// followDocs takes what was written to the pairs of documents and code.
func (d *Daemon) followDocs(ctx context.Context) {
	for {
		if err := d.docs.Follow(ctx); err != nil && ctx.Err() == nil {
			d.log.Warn("documents", "err", err)
		}
		if !waits.Sleep(ctx, docsPause) {
			return
		}
		select {
		case <-d.docsNews:
		case <-ctx.Done():
			return
		}
	}
}

// pokeDocs tells the follower that there are new versions. Never blocks.
func (d *Daemon) pokeDocs() {
	select {
	case d.docsNews <- struct{}{}:
	default:
	}
}

func (d *Daemon) docsRequest(ctx context.Context, r *wire.Request) (any, []byte, error) {
	var q wire.DocsRequest
	if err := r.Decode(&q); err != nil {
		return nil, nil, err
	}
	p, err := d.paths.Clean(q.Path)
	if err != nil {
		return nil, nil, err
	}
	d.ingest.WaitHead(ctx, waits.Query)
	a := wire.DocsAnswer{Pairs: []wire.DocPair{}}
	if warning := d.survey.RefreshWhole(ctx); warning != "" {
		a.Problems = append(a.Problems, warning)
	}
	f := docsync.Filter{Ref: string(p), Name: q.Name, Explicit: q.Explicit}
	var pairs []docsync.Status
	switch q.Do {
	case "check":
		var rep docsync.Report
		rep, err = d.docs.Check(ctx, f)
		pairs, a.Seq, a.Problems = rep.Pairs, rep.Seq, append(a.Problems, rep.Problems...)
	case "mark":
		by := r.Hello.Client
		if reader, ok := d.attribution.ReaderOf(q.Reader.ToolUse); ok {
			q.Reader.Session = string(reader.Session)
		}
		if q.Reader.Session != "" {
			by += ", session " + q.Reader.Session
		}
		pairs, a.Seq, err = d.docs.Mark(ctx, f, q.AsOf, q.Edited, by, time.Now().UnixNano())
		if err == nil && len(pairs) > 0 {
			err = d.store.Sync() // nobody will say it again
		}
	default:
		err = wire.Errorf(wire.ErrBadRequest, "check or mark", "there is no %q for documents", q.Do)
	}
	if err != nil {
		return nil, nil, err
	}
	for _, st := range pairs {
		w, err := d.docPair(st, q.Diff)
		if err != nil {
			return nil, nil, err
		}
		switch st.State {
		case docsync.Stale:
			a.Stale++
		case docsync.Missing:
			a.Missing++
		}
		a.Pairs = append(a.Pairs, w)
	}
	return a, nil, nil
}

func (d *Daemon) docPair(st docsync.Status, withDiff bool) (wire.DocPair, error) {
	w := wire.DocPair{Doc: []byte(st.Doc), Code: st.Spec, How: string(st.How), State: string(st.State), AsOf: st.Seq, By: st.By,
		Edited: st.DocEdited, Gone: st.DocGone, Problem: st.Problem}
	if st.Time != 0 {
		w.Since = onwire.Time(st.Time)
	}
	for _, c := range st.Changes {
		change, err := d.docChange(c, withDiff)
		if err != nil {
			return w, err
		}
		w.Changes = append(w.Changes, change)
	}
	return w, nil
}

// docChange compares what a file was in the baseline with what it is. A text
// that the store has let go is no error: that it differs is known all the same.
func (d *Daemon) docChange(c docsync.Change, withDiff bool) (wire.DocChange, error) {
	w := wire.DocChange{Path: []byte(c.Path), What: c.What, To: []byte(c.To), Versions: c.Versions}
	if c.First.Seq != 0 {
		w.First = onwire.Version(c.First)
	}
	if c.Last.Seq != 0 {
		w.Last = onwire.Version(c.Last)
	}
	if ignore.Secret(string(c.Path)) {
		return w, nil
	}
	const file = syscall.S_IFREG | 0o644 // the baseline knows contents alone
	from, to := versions.Side{Path: c.Path, Exists: c.Was != (store.Hash{}), Mode: file}, versions.Side{Path: c.Path}
	var err error
	if from.Exists {
		from.Data, err = d.store.Content(c.Was)
	}
	if err == nil && c.Last.Seq != 0 {
		to, err = versions.SideOf(d.store, c.Last)
		to.Mode = file
	}
	if err != nil {
		w.Lost = true
		return w, nil
	}
	var a wire.DiffAnswer
	var out bytes.Buffer
	versions.WriteDiff(&out, &a, from, to, 3)
	if w.Added, w.Removed = a.Added, a.Removed; withDiff {
		w.Diff = out.String()
	}
	return w, nil
}
