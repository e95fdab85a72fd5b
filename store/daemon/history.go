package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"cachebro/store"
	"cachebro/store/daemon/onwire"
	"cachebro/store/daemon/waits"
	"cachebro/store/wire"
)

// settle waits for the spool, and without a mount looks at the asked file, or at
// everything where it is a directory.
func (d *Daemon) settle(ctx context.Context, p store.Path) {
	d.ingest.WaitHead(ctx, waits.Query)
	if p == "" || d.mount.mounted() {
		return
	}
	_, err := d.look(ctx, p) // what has changed unseen becomes a version
	if isDir, _ := d.knownDir(p); errors.Is(err, wire.ErrIsDir) || err != nil && isDir {
		d.settleTree(ctx)
	}
}

// settleTree is settle for questions about everything. What it cannot look at is
// not in the answer, which is better than none.
func (d *Daemon) settleTree(ctx context.Context) {
	if err := d.settleAll(ctx); err != nil {
		d.log.Warn("what changed unseen is not known", "err", err)
	}
}

func (d *Daemon) logQuery(ctx context.Context, q wire.LogQuery) (wire.LogAnswer, []byte, error) {
	p, err := d.paths.Clean(q.Path)
	if err != nil {
		return wire.LogAnswer{}, nil, err
	}
	ops, err := onwire.ParseOps(q.Ops)
	if err != nil {
		return wire.LogAnswer{}, nil, err
	}
	session, err := d.sessionNamed(q.Session)
	if err != nil {
		return wire.LogAnswer{}, nil, err
	}
	prompt, err := d.promptNamed("log", session, q.Prompt)
	if err != nil {
		return wire.LogAnswer{}, nil, err
	}
	if d.settle(ctx, p); p == "" && q.Before == 0 && q.After == 0 {
		d.settleTree(ctx)
	}
	vs, more, err := d.store.Log(store.Filter{
		Path: p, Session: session, Prompt: prompt, ToolCall: q.ToolCall, PID: q.PID, Comm: q.Comm,
		Since: q.Since, Until: q.Until, Before: q.Before, After: q.After, Ops: ops, Oldest: q.Oldest, Limit: min(q.Limit, 100_000), Baselines: q.Baselines,
	})
	if err != nil {
		return wire.LogAnswer{}, nil, err
	}
	a := wire.LogAnswer{More: more, Versions: make([]wire.Version, len(vs))}
	numbers := d.numbers(p, vs)
	for i, v := range vs {
		a.Versions[i] = onwire.Version(v)
		a.Versions[i].Number = numbers[v.Seq]
		if a.Versions[i].Made, err = d.store.MadeFor(v); err != nil {
			return a, nil, err
		}
	}
	if session == "" && prompt == "" && q.ToolCall == "" && q.PID == 0 && q.Comm == "" && len(ops) == 0 {
		err = d.addLines(&a, p, q, vs)
	}
	return a, nil, err
}

// numbers gives the 1-based positions in the history of a single file.
func (d *Daemon) numbers(p store.Path, vs []store.Version) map[uint64]int {
	if p == "" || len(vs) == 0 {
		return nil
	}
	v, ok, err := d.store.Current(p)
	if err != nil || !ok || v.Stat.Mode&syscall.S_IFMT == syscall.S_IFDIR {
		return nil
	}
	hist, err := d.store.History(p, true)
	if err != nil {
		return nil
	}
	out := make(map[uint64]int, len(hist))
	for i, h := range hist {
		out[h.Seq] = i + 1
	}
	return out
}

// addLines adds the gaps and notices that fall between the page's versions.
func (d *Daemon) addLines(a *wire.LogAnswer, p store.Path, q wire.LogQuery, vs []store.Version) error {
	from, to := q.Since, q.Until
	if len(vs) > 0 {
		first, last := vs[0].When(), vs[len(vs)-1].When()
		if q.Oldest {
			first, last = last, first
		}
		if a.More && !q.Oldest || q.After > 0 {
			from = last
		}
		if a.More && q.Oldest || q.Before > 0 {
			to = first
		}
	}
	within := func(t time.Time) bool {
		return (from.IsZero() || !t.Before(from)) && (to.IsZero() || !t.After(to))
	}
	gaps, _, err := d.store.Gaps(1000)
	if err != nil {
		return err
	}
	for _, g := range gaps {
		if _, ok := onwire.Below(string(g.Path), string(p)); within(onwire.Time(g.Time)) && (ok || p == "") {
			a.Gaps = append(a.Gaps, onwire.Gap(g))
		}
	}
	if p != "" {
		return nil
	}
	notices, err := d.store.Notices(1000)
	for _, n := range notices {
		if within(onwire.Time(n.Time)) {
			a.Notices = append(a.Notices, wire.Notice{Time: onwire.Time(n.Time), Text: n.Text, Actor: onwire.Actor(n.Actor)})
		}
	}
	if q.Oldest {
		slices.Reverse(a.Gaps)
		slices.Reverse(a.Notices)
	}
	return err
}

func (d *Daemon) show(ctx context.Context, q wire.ShowQuery) (wire.Version, []byte, error) {
	p, err := d.paths.Clean(q.Path)
	if err != nil {
		return wire.Version{}, nil, err
	}
	d.settle(ctx, p)
	v, n, err := d.find(p, q)
	if err != nil {
		return wire.Version{}, nil, err
	}
	out := onwire.Version(v)
	out.Number = n
	body, err := d.contentOf(v)
	return out, body, err
}

// given reports whether a query names a version at all.
func given(q wire.ShowQuery) bool { return q.Seq != 0 || q.Number != 0 || !q.At.IsZero() }

// find resolves a ShowQuery; n is the version's number in its path's history,
// where that was looked at.
func (d *Daemon) find(p store.Path, q wire.ShowQuery) (v store.Version, n int, err error) {
	if q.Seq > 0 {
		v, err = d.store.Version(q.Seq)
		if err == nil && p != "" && v.Path != p && v.From != p {
			hist, herr := d.store.History(p, true)
			if herr != nil || !slices.ContainsFunc(hist, func(h store.Version) bool { return h.Seq == q.Seq }) {
				return v, 0, wire.Errorf(wire.ErrNotFound, "cachebro log "+onwire.ShellName(p), "version #%d is not one of %s", q.Seq, onwire.Display(p))
			}
		}
		return v, 0, err
	}
	if p == "" {
		return v, 0, wire.Errorf(wire.ErrBadRequest, "name a file, or a version by #SEQ as log shows it", "no path and no version was given")
	}
	hist, err := d.store.History(p, true)
	if err != nil {
		return v, 0, err
	}
	if len(hist) == 0 {
		if isDir, _ := d.knownDir(p); isDir {
			return v, 0, wire.Errorf(wire.ErrIsDir, "name a file in it; cachebro log "+onwire.ShellName(p)+" lists its versions", "%s is a directory", onwire.Display(p))
		}
		return v, 0, wire.Errorf(wire.ErrNotFound, "cachebro status tells how far the baseline is", "no version of %s is known", onwire.Display(p))
	}
	switch {
	case !q.At.IsZero():
		seq, err := d.store.SeqAt(q.At)
		if err != nil {
			return v, 0, err
		}
		for i := len(hist) - 1; i >= 0; i-- {
			if hist[i].Seq <= seq {
				return hist[i], i + 1, nil
			}
		}
		return v, 0, wire.Errorf(wire.ErrNotFound, "cachebro log "+onwire.ShellName(p), "%s was not known at %s", onwire.Display(p), q.At.Format(time.DateTime))
	case q.Number > 0 && q.Number <= len(hist):
		return hist[q.Number-1], q.Number, nil
	case q.Number < 0 && -q.Number < len(hist):
		n := len(hist) + q.Number
		return hist[n-1], n, nil
	case q.Number != 0:
		return v, 0, wire.Errorf(wire.ErrNotFound, "cachebro log "+onwire.ShellName(p), "%s has %d versions, not @%d", onwire.Display(p), len(hist), q.Number)
	}
	return hist[len(hist)-1], len(hist), nil
}

// knownDir reports whether the log has live paths below p.
func (d *Daemon) knownDir(p store.Path) (bool, error) {
	found := errors.New("found")
	err := d.store.Live(p, func(v store.Version) error {
		if v.Path != p || v.Stat.Mode&syscall.S_IFMT == syscall.S_IFDIR {
			return found
		}
		return nil
	})
	if errors.Is(err, found) {
		return true, nil
	}
	return false, err
}

// contentOf is what show prints: the bytes, or where a symbolic link points.
func (d *Daemon) contentOf(v store.Version) ([]byte, error) {
	switch {
	case v.Stat.Mode&syscall.S_IFMT == syscall.S_IFLNK:
		return []byte(v.Target), nil
	case v.Stat.Mode&syscall.S_IFMT == syscall.S_IFDIR:
		return nil, wire.Errorf(wire.ErrIsDir, "name a file in it", "%s was a directory in this version", onwire.Display(v.Path))
	case v.Blob == (store.Hash{}) && v.Deleted():
		return nil, wire.Errorf(wire.ErrNotFound, fmt.Sprintf("cachebro show '%s@-1'", onwire.Display(v.Path)), "%s was deleted in this version (#%d)", onwire.Display(v.Path), v.Seq)
	case v.Blob == (store.Hash{}):
		why := v.NoContent
		if why == "" {
			why = "none was captured"
		}
		return nil, wire.Errorf(wire.ErrPruned, "cachebro log "+onwire.ShellName(v.Path)+" shows which versions have content", "version #%d of %s has no content: %s", v.Seq, onwire.Display(v.Path), why)
	}
	b, err := d.store.Content(v.Blob)
	if err != nil {
		return nil, fmt.Errorf("version #%d of %s: %w", v.Seq, onwire.Display(v.Path), onwire.Error(err))
	}
	return b, nil
}
