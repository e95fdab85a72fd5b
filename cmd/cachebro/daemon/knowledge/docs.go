package knowledge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/cmd/cachebro/daemon/versions"
	"cachebro/search"
	"cachebro/store"
	"cachebro/store/knowledge/docsync"
	"cachebro/store/leaf/ignore"
	"cachebro/store/leaf/loop"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

// docsPause is how long Run pauses between two batches of versions. Requests do not wait for the
// pause.
const docsPause = 500 * time.Millisecond

// openDocs opens the pairs of documents and code. A record that cannot be read or stored is not an
// error.
func (kn *Knowledge) openDocs() (err error) {
	kn.news = make(chan struct{}, 1)
	kn.docs, err = docsync.Open(kn.Store, docsync.Options{
		IsDoc: func(p string) bool { return search.KindOf(p) == search.Doc },
		IsCode: func(p string) bool {
			k := search.KindOf(p)
			return k == search.Code || k == search.Test || k == search.Config
		},
		Busy: func() bool {
			held := kn.IndexHeld()
			if held {
				kn.Poke() // to continue after the pause
			}
			return held
		},
	})
	if errors.Is(err, docsync.ErrUnreadable) || errors.Is(err, store.ErrNoSpace) {
		kn.Log.Warn("documents", "err", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the pairs of documents and code: %w", err)
	}
	return nil
}

// Run keeps the pairs of documents and code up to date with the log.
func (kn *Knowledge) Run(ctx context.Context) {
	for {
		if err := kn.docs.Follow(ctx); err != nil && ctx.Err() == nil {
			kn.Log.Warn("documents", "err", err)
		}
		if !loop.Pause(ctx, docsPause) {
			return
		}
		select {
		case <-kn.news:
		case <-ctx.Done():
			return
		}
	}
}

// Poke notifies Run of new versions. It never blocks.
func (kn *Knowledge) Poke() { loop.Wake(kn.news) }

func (kn *Knowledge) docsRequest(ctx context.Context, r *wire.Request, q wire.DocsRequest) (any, []byte, error) {
	p, err := kn.Paths.Clean(q.Path)
	if err != nil {
		return nil, nil, err
	}
	kn.Ingest.WaitHead(ctx, ingest.QueryWait)
	a := wire.DocsAnswer{Pairs: []wire.DocPair{}}
	if warning := kn.Survey.RefreshWhole(ctx); warning != "" {
		a.Problems = append(a.Problems, warning)
	}
	f := docsync.Filter{Ref: string(p), Name: q.Name, Explicit: q.Explicit}
	var pairs []docsync.Status
	switch q.Do {
	case "check":
		var rep docsync.Report
		rep, err = kn.docs.Check(ctx, f)
		pairs, a.Seq = rep.Pairs, rep.Seq
		a.Problems = append(a.Problems, rep.Problems...)
	case "mark":
		if q.AsOf > kn.Store.Seq() {
			return nil, nil, wire.Errorf(wire.ErrNotFound, "docs check prints the version that it looked at", "there is no version %d", q.AsOf)
		}
		by := r.Hello.Client
		if reader, ok := kn.Attribution.ReaderOf(q.Reader.ToolUse); ok {
			q.Reader.Session = string(reader.Session)
		}
		if q.Reader.Session != "" {
			by += ", session " + q.Reader.Session
		}
		pairs, a.Seq, err = kn.docs.Mark(ctx, f, q.AsOf, q.Edited, by, time.Now().UnixNano())
		if err == nil && len(pairs) > 0 {
			err = kn.Store.Sync() // nobody will repeat the request if it is lost
		}
	default:
		err = wire.Errorf(wire.ErrBadRequest, "check or mark", "%q is not an operation on documents", q.Do)
	}
	if err != nil {
		return nil, nil, err
	}
	for _, st := range pairs {
		switch st.State {
		case docsync.Stale:
			a.Stale++
		case docsync.Missing:
			a.Missing++
		}
		a.Pairs = append(a.Pairs, kn.docPair(st, q.Diff))
	}
	return a, nil, nil
}

func (kn *Knowledge) docPair(st docsync.Status, withDiff bool) wire.DocPair {
	w := wire.DocPair{Doc: []byte(st.Doc), Code: st.Spec, How: string(st.How), State: string(st.State), AsOf: st.Seq, By: st.By,
		Edited: st.DocEdited, Gone: st.DocGone, Problem: st.Problem}
	if st.Time != 0 {
		w.Since = onwire.Time(st.Time)
	}
	for _, c := range st.Changes {
		w.Changes = append(w.Changes, kn.docChange(c, withDiff))
	}
	return w
}

// docChange compares the content of a file in the pair's baseline (see package docsync) with its
// present state. If the store has dropped the text, it returns the change without a diff.
func (kn *Knowledge) docChange(c docsync.Change, withDiff bool) wire.DocChange {
	w := wire.DocChange{Path: []byte(c.Path), What: c.What, To: []byte(c.To), Versions: c.Versions}
	if c.First.Seq != 0 {
		w.First = onwire.Version(c.First)
	}
	if c.Last.Seq != 0 {
		w.Last = onwire.Version(c.Last)
	}
	if ignore.Secret(string(c.Path)) {
		return w
	}
	const file = syscall.S_IFREG | 0o644 // the baseline has no modes, only contents
	from, to := versions.Side{Path: c.Path, Exists: c.Was != (store.Hash{}), Mode: file}, versions.Side{Path: c.Path}
	var err error
	if from.Exists {
		from.Data, err = kn.Store.Content(c.Was)
	}
	if err == nil && c.Last.Seq != 0 {
		to, err = versions.SideOf(kn.Store, c.Last)
		to.Mode = file
	}
	if err != nil {
		w.Lost = true
		return w
	}
	var a wire.DiffAnswer
	var out bytes.Buffer
	versions.WriteDiff(&out, &a, from, to, 3)
	w.Added, w.Removed = a.Added, a.Removed
	if withDiff {
		w.Diff = out.String()
	}
	return w
}

// Pinned reports whether the diff of an outdated document starts from a content, so that the
// content must not be dropped.
func (kn *Knowledge) Pinned(h store.Hash) bool { return kn.docs.Pinned(h) }
