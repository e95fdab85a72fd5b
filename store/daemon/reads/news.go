package reads

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"cachebro/store"
	"cachebro/store/daemon/attribution"
	"cachebro/store/daemon/onwire"
	"cachebro/store/diff"
	"cachebro/store/readers"
	"cachebro/store/text"
	"cachebro/store/wire"
)

const (
	maxNewsVersions = 2000 // since the last prompt that are looked at
	maxNews         = 40   // files that a prompt tells of
	maxNewsDiff     = 300  // bytes of a diff that is told whole
)

// News tells a reader of files that it was shown and that somebody else changed
// after the version numbered after: what it holds of them is no longer what they are.
// The newest change comes first; changes of its own are none.
func (rd *Reads) News(ctx context.Context, r store.Reader, after uint64) []wire.News {
	held := rd.shown.Held(r)
	if len(held) == 0 {
		return nil
	}
	vs, _, err := rd.store.Log(store.Filter{After: after, Limit: maxNewsVersions}) // newest first
	if err != nil {
		return nil
	}
	var out []wire.News
	told := map[store.Path]bool{}
	for _, v := range vs {
		// What a plan took back is the person's doing, unless the reader ran it itself.
		own := v.Actor.Session == r.Session && v.Actor.Agent == r.Agent && (v.Plan == "" || v.Actor.ToolCall != "")
		if own || told[v.Path] || !slices.Contains(held, v.Path) {
			continue
		}
		told[v.Path] = true
		if n, ok := rd.newsOf(ctx, r, v); ok {
			if out = append(out, n); len(out) == maxNews {
				break
			}
		}
	}
	return out
}

// newsOf is what v made of what the reader holds of its file.
func (rd *Reads) newsOf(ctx context.Context, r store.Reader, v store.Version) (wire.News, bool) {
	h, at, _, ok := rd.shown.ShownSince(r, v.Path)
	if !ok || v.Time <= at {
		return wire.News{}, false
	}
	who := fmt.Sprintf("at %s by %s", onwire.Clock(v.Time), rd.doer(r, v))
	now, present, err := rd.store.Current(v.Path)
	if err != nil {
		return wire.News{}, false
	}
	if !present || now.Deleted() {
		return wire.News{Text: fmt.Sprintf("%s: gone, %s", readers.Printable(v.Path), who)}, true
	}
	l, err := rd.survey.Look(ctx, v.Path)
	if err != nil || l.Hash == h || !l.Known {
		return wire.News{}, false
	}
	n := wire.News{Text: fmt.Sprintf("%s: changed %s", readers.Printable(v.Path), who)}
	was, err := rd.store.Content(h)
	if err != nil {
		return n, true
	}
	is, err := l.Content()
	if err != nil || text.Binary(was) || text.Binary(is) {
		return n, true
	}
	s := diff.Compare(was, is)
	n.Text = fmt.Sprintf("%s: +%d -%d %s", readers.Printable(v.Path), s.Added(), s.Removed(), who)
	if body := s.Body(0); len(body) <= maxNewsDiff {
		n.Diff = string(body)
	} else if lines := rd.differing(h, l); lines != "" {
		n.Text += "; " + lines
	}
	return n, true
}

// doer names who made a version: a plan by what it took back, another session by what
// it was asked.
func (rd *Reads) doer(r store.Reader, v store.Version) string {
	if v.Plan != "" {
		if p, err := rd.store.Journal.Plan(v.Plan); err == nil {
			return cmp.Or(p.Kind, "undo") + " of " + cmp.Or(onwire.Display(store.Path(p.Title)), "earlier changes")
		}
		return "an undo"
	}
	by := attribution.ByWhom(v.Actor)
	switch {
	case v.Actor.Session == "":
		return by
	case v.Actor.Session == r.Session:
		return by + " of a sub-agent"
	}
	if ps, err := rd.store.Sessions.LastPrompts(v.Actor.Session, 1); err == nil && len(ps) > 0 && ps[0].Text != "" {
		return fmt.Sprintf("%s of another session (%q)", by, ps[0].Text)
	}
	return by + " of another session"
}
