package ingest

import (
	"context"
	"errors"

	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/cmd/cachebro/daemon/source"
	"cachebro/store"
	"cachebro/store/leaf/spool"
	"cachebro/store/wire"
)

// take handles one record. It returns the record of a version as a Change. Any other record takes
// effect immediately. After a crash it may take effect again, which does no harm.
func (g *Ingester) take(ctx context.Context, j spool.Joined) (store.Change, bool) {
	r := j.Record
	switch r.Kind {
	case spool.KindMount, spool.KindUnmount:
		g.mounts++
		g.dirty.mount(r.Kind == spool.KindUnmount)
		clear(g.late)
		g.log.Info("spool", "mount", r.Kind == spool.KindMount, "seq", r.Seq, "version", r.Version)
	case spool.KindProcess:
		g.attribution.RecordProcess(r, &g.processes)
	case spool.KindDirty:
		if r.Node == 0 {
			g.dirty.complete()
			g.bypasses = append(g.bypasses, Bypass{Record: r}) // an expected scan can begin
			break
		}
		g.dirty.set(g.node(r), store.Path(r.Path), store.InodeOf(r.Stat))
	case spool.KindGap:
		if r.Reason == "" {
			break
		}
		g.Gap(store.Gap{Path: store.Path(r.Path), Time: r.Time, Reason: r.Reason})
	case spool.KindNotice:
		g.notice(r)
	case spool.KindGit:
		g.o.Git.Take(r, g.actor(r), g.attribution.PlanOf(attribution.WriterOf(r), r.Time))
	case spool.KindReads:
		g.o.Reads(r)
	case spool.KindBeside:
		g.bypasses = append(g.bypasses, Bypass{r, g.actor(r)})
	case spool.KindContent:
		return g.lateChange(j)
	case spool.KindVersion:
		return g.change(ctx, j)
	default:
		g.log.Warn("a record of an unknown kind was skipped", "kind", r.Kind, "seq", r.Seq)
	}
	return store.Change{}, false
}

func (g *Ingester) actor(r *spool.Record) store.Actor {
	a := g.attribution.Actor(attribution.WriterOf(r), r.UID, r.Time, r.Path)
	a.Line = r.Line
	return a
}

// node makes a node id unique among all mounts that this process has seen.
func (g *Ingester) node(r *spool.Record) uint64 {
	if r.Node == 0 {
		return 0
	}
	return r.Node&(1<<40-1) | g.mounts<<40
}

func (g *Ingester) change(ctx context.Context, j spool.Joined) (store.Change, bool) {
	r := j.Record
	c := store.Change{
		Op: r.Op, Class: r.Class, Path: store.Path(r.Path), Path2: store.Path(r.Path2), Target: r.Target,
		Node: g.node(r), Stat: r.Stat, Time: r.Time,
		Actor:    g.actor(r),
		Plan:     g.attribution.PlanOf(attribution.WriterOf(r), r.Time),
		LastName: r.LastName, Idle: r.Idle,
		NotRead: r.Op == store.OpBaseline && !r.HasContent && (r.Reason == spool.NotRead || r.Stat.Size == 0),
	}
	if c.Op == store.OpOutside {
		c.Actor = attribution.Outsider
	}
	switch c.Op {
	case store.OpWrite, store.OpCreate, store.OpTruncate, store.OpOutside:
		g.dirty.clear(c.Node)
	case store.OpUnlink:
		g.dirty.removeName(c.Path)
	case store.OpRename, store.OpExchange:
		g.dirty.moved(c.Path, c.Path2, movesDir(r), c.Op == store.OpExchange)
	}
	switch {
	case r.Reason != "":
		c.NoContent = r.Reason
	case r.TooLarge:
		c.NoContent = "too large"
	case j.HasContent:
		c.HasContent, c.Content = true, j.Content
		c.TailFrom = r.TailFrom
	case r.HasContent:
		if !g.fromSource(ctx, &c) {
			c.NoContent = "gap: not captured"
			if !g.reader.WriterAlive() {
				g.lost(&c, "the mount process ended before the content was saved")
			}
		}
	}
	return c, true
}

// fromSource fills in the content from the file itself, if the file is still as the record
// describes it.
func (g *Ingester) fromSource(ctx context.Context, c *store.Change) bool {
	p := c.Path
	if c.Path2 != "" {
		p = c.Path2
	}
	f, st, err := g.source.Open(ctx, p)
	if err != nil {
		return false
	}
	defer f.Close()
	if !source.SameContent(st, c.Stat) {
		return false
	}
	content, after, err := source.ReadStable(f, st)
	if err != nil || !source.SameContent(after, c.Stat) {
		if errors.Is(err, wire.ErrTooLarge) {
			c.NoContent = "too large"
			return true
		}
		return false
	}
	c.HasContent, c.Content = true, content
	return true
}

// maxLate bounds how many versions wait for late content.
const maxLate = 4096

// remember notes versions whose content may still arrive.
func (g *Ingester) remember(changes []store.Change, from []*spool.Record, versions []store.Version) {
	next := 0
	for i, r := range from {
		if !r.HasContent || changes[i].HasContent || r.Kind != spool.KindVersion || len(g.late) >= maxLate {
			continue
		}
		for ; next < len(versions); next++ {
			if versions[next].Path == changes[i].Path && versions[next].Time == changes[i].Time {
				c := changes[i]
				c.TailFrom, c.NoContent = r.TailFrom, ""
				g.late[r.Seq] = lateContent{c, versions[next].Seq}
				break
			}
		}
	}
}

// lateChange returns the change for content that arrived after its version was stored. The content
// becomes another version, unless the path has a newer one.
func (g *Ingester) lateChange(j spool.Joined) (store.Change, bool) {
	l, ok := g.late[j.Record.For]
	if !ok || !j.HasContent {
		return store.Change{}, false
	}
	delete(g.late, j.Record.For)
	v, found, err := g.store.Current(l.change.Path)
	if err != nil || !found || v.Seq != l.seq {
		return store.Change{}, false
	}
	c := l.change
	c.HasContent, c.Content = true, j.Content
	return c, true
}

// notice adds a notice from mountd to the log.
func (g *Ingester) notice(r *spool.Record) {
	if err := g.store.Notes.Notice(store.Notice{Time: r.Time, Text: r.Reason, Actor: g.actor(r)}); err != nil {
		g.log.Warn("notice", "text", r.Reason, "err", err)
	}
}
