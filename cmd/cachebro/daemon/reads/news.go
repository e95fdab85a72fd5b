package reads

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/store"
	"cachebro/store/diff"
	"cachebro/store/leaf/text"
	"cachebro/store/onwire"
	"cachebro/store/readers"
	"cachebro/store/wire"
)

const (
	maxNewsVersions = 2000 // versions since the last prompt that are examined
	maxNews         = 40   // files that are listed with one prompt
	maxNewsDiff     = 300  // size of a diff that is shown in full, in bytes
	maxSteps        = 64   // number of versions that madeSince looks back
	sureNews        = 700  // size of news that every client can show, in bytes
)

// News returns the files that a reader was shown and that somebody else has changed since, the
// newest change first. It ignores the reader's own changes, and versions up to the number after.
// Before these files it returns the lost updates after the version with the number began.
func (rd *Reads) News(ctx context.Context, r store.Reader, began, after uint64) []wire.News {
	out, reportedUpTo := rd.lostUpdates(r, began)
	held := rd.Shown.Held(r)
	if len(held) == 0 {
		return out
	}
	vs, _, err := rd.Store.Log(store.Filter{After: after, Limit: maxNewsVersions}) // newest first
	if err != nil {
		return out
	}
	size := 0
	for _, n := range out {
		size += len(n.Text)
	}
	since := map[store.Path]bool{} // files that the reader changed in the versions read so far, newest first
	for _, v := range vs {
		own := ownOf(r, v)
		since[v.Path] = since[v.Path] || own
		if own || reportedUpTo[v.Path] >= v.Seq || !slices.Contains(held, v.Path) {
			continue
		}
		reportedUpTo[v.Path] = math.MaxUint64
		if n, is, ok := rd.newsOf(ctx, r, v, since[v.Path]); ok {
			size += len(n.Text) + len(n.Diff)
			if !since[v.Path] {
				rd.Shown.NoteReported(r, v.Path, is, n.Diff != "" && size < sureNews)
			}
			out = append(out, n)
			if len(out) == maxNews {
				break
			}
		}
	}
	return out
}

// ownOf reports whether the reader made v. A version made by a plan is the person's, unless the
// reader itself ran the plan.
func ownOf(r store.Reader, v store.Version) bool {
	return v.Actor.Session == r.Session && v.Actor.Agent == r.Agent && (v.Plan == "" || v.Actor.ToolCall != "")
}

// madeSince reports whether the reader changed the file between the time at (ns) and v without
// being shown the result. A command, for example, changes files in this way.
func (rd *Reads) madeSince(r store.Reader, v store.Version, at int64) bool {
	for range maxSteps {
		o, found, err := rd.Store.AtSeq(v.Path, v.Seq-1)
		if err != nil || !found || o.Time <= at {
			return false
		}
		v = o
		if ownOf(r, v) {
			return true
		}
	}
	return false
}

// newsOf describes how the file has changed since the reader was shown it. v is the newest change
// by somebody else. If the reader itself has changed the file after v, since is set, and newsOf
// describes only the change made by v. hash is the hash of the file's present content.
func (rd *Reads) newsOf(ctx context.Context, r store.Reader, v store.Version, since bool) (n wire.News, hash store.Hash, ok bool) {
	h, at, _, held := rd.Shown.ShownSince(r, v.Path)
	reported, shownChange, reportedAt, wasReported := rd.Shown.ReportedSince(r, v.Path)
	if !held || v.Time <= max(at, reportedAt) {
		return n, hash, false
	}
	who := fmt.Sprintf("at %s by %s", onwire.Clock(v.Time), rd.doer(r, v))
	cur, present, err := rd.Store.Current(v.Path)
	if err != nil {
		return n, hash, false
	}
	if !present || cur.Deleted() {
		return wire.News{Text: fmt.Sprintf("%s: gone, %s", readers.Printable(v.Path), who)}, hash, true
	}
	l, err := rd.Survey.Look(ctx, v.Path)
	if err != nil || !l.Known {
		return n, hash, false
	}
	switch {
	case l.Hash == h && !wasReported || wasReported && l.Hash == reported:
		if since || !rd.madeSince(r, v, max(at, reportedAt)) {
			return n, hash, false
		}
		return wire.News{Text: fmt.Sprintf("%s: reverted to the text before your change, %s", readers.Printable(v.Path), who)}, l.Hash, true
	case shownChange: // the reader knows this content from a diff
		h = reported
	case wasReported && l.Hash == h:
		return wire.News{Text: fmt.Sprintf("%s: back to the text that you were shown, %s", readers.Printable(v.Path), who)}, l.Hash, true
	}
	n = wire.News{Text: fmt.Sprintf("%s: changed %s", readers.Printable(v.Path), who)}
	content := l.Content
	if before, found, err := rd.Store.AtSeq(v.Path, v.Seq-1); since && found && err == nil {
		h, content = before.Blob, func() ([]byte, error) { return rd.Store.Content(v.Blob) }
	}
	was, err := rd.Store.Content(h)
	if err != nil {
		return n, l.Hash, true
	}
	now, err := content()
	if err != nil || text.Binary(was) || text.Binary(now) {
		return n, l.Hash, true
	}
	s := diff.Compare(was, now)
	n.Text = fmt.Sprintf("%s: +%d -%d %s", readers.Printable(v.Path), s.Added(), s.Removed(), who)
	if body := s.Body(0); len(body) <= maxNewsDiff {
		n.Diff = string(body)
	} else if lines := rd.differing(h, l); lines != "" && !since {
		n.Text += "; " + lines
	}
	return n, l.Hash, true
}

// lostUpdates returns the lost updates since a version that were not reported to the session yet.
// The session's writes overwrote others' changes, or others' writes overwrote the session's.
// reportedUpTo holds the files in which the session itself overwrote changes, each with the version
// up to which everything is reported.
func (rd *Reads) lostUpdates(r store.Reader, since uint64) (out []wire.News, reportedUpTo map[store.Path]uint64) {
	reportedUpTo = map[store.Path]uint64{}
	for _, l := range rd.Lost.Unreported(r.Session, since) {
		v, err := rd.Store.Version(l.Seq)
		if err != nil {
			continue
		}
		other, found := rd.Lost.NewestLost(l)
		theirs := "others"
		if found {
			theirs = rd.doer(r, other) + " at " + onwire.Clock(other.Time)
		}
		what := text.Count(l.Lines, "line") + " of "
		if l.Restored {
			what = "the removal of " + text.Count(l.Lines, "line") + " by "
		}
		var n wire.News
		if l.Reader.Session == r.Session {
			reportedUpTo[l.Path] = max(reportedUpTo[l.Path], l.Seq)
			n.Text = fmt.Sprintf("%s: your %s at %s was made from an older text and overwrote %s%s", readers.Printable(l.Path), toolOf(v), onwire.Clock(l.Time), what, theirs)
		} else {
			n.Text = fmt.Sprintf("%s: %s overwrote %syours at %s", readers.Printable(l.Path), rd.doer(r, v), what, onwire.Clock(l.Time))
		}
		n.Text += fmt.Sprintf(" (%q); cachebro undo --merge %d combines both", text.Clip(l.Sample, maxSample), l.Seq)
		out = append(out, n)
	}
	return out, reportedUpTo
}

// maxHeld is the size in bytes of the largest diff that Hold shows. After a larger change, the
// reader must read the file again.
const maxHeld = 4000

// Hold returns why a reader's edit of a file must wait, or "" if it need not. An edit waits if
// others have changed the file since the reader last saw it or was informed of a change. Hold
// reports each content only once.
func (rd *Reads) Hold(ctx context.Context, r store.Reader, p store.Path) string {
	h, _, how, ok := rd.Shown.ShownSince(r, p)
	if !ok {
		return ""
	}
	reported, shownChange, _, wasReported := rd.Shown.ReportedSince(r, p)
	if shownChange {
		h = reported
	}
	l, err := rd.Survey.Look(ctx, p)
	known := l.Hash == h || wasReported && l.Hash == reported
	if err != nil || !l.Known || known {
		return ""
	}
	if by := l.Version.Actor; by.Session == r.Session && (by.Agent == r.Agent || by.ToolCall == "") {
		return ""
	}
	message := fmt.Sprintf("cachebro: held, because %s was changed at %s by %s after %s. ", readers.Printable(p), onwire.Clock(l.Version.Time), rd.doer(r, l.Version), how)
	was, err := rd.Store.Content(h)
	now, err2 := l.Content()
	if err != nil || err2 != nil || text.Binary(was) || text.Binary(now) {
		rd.Shown.NoteReported(r, p, l.Hash, false)
		return message + "Read it again, then edit it."
	}
	body := diff.Compare(was, now).Body(diff.Context)
	rd.Shown.NoteReported(r, p, l.Hash, len(body) <= maxHeld)
	if len(body) > maxHeld {
		return message + "Read it again, then edit it."
	}
	return message + "Keep this change in what you write, and try again:\n" + string(body)
}

// maxSample is how much of a lost line is shown, in characters.
const maxSample = 60

// toolOf returns a name for the tool with which a session wrote a version.
func toolOf(v store.Version) string {
	switch v.Actor.Tool {
	case "":
		return "write"
	case "Bash":
		return "command"
	}
	return v.Actor.Tool
}

// doer describes who made a version. It describes a plan by what the plan undid, and another
// session by its prompt.
func (rd *Reads) doer(r store.Reader, v store.Version) string {
	if v.Plan != "" {
		if p, err := rd.Store.Journal.Plan(v.Plan); err == nil {
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
	if ps, err := rd.Store.Sessions.LastPrompts(v.Actor.Session, 1); err == nil && len(ps) > 0 && ps[0].Text != "" {
		return fmt.Sprintf("%s of another session (%q)", by, ps[0].Text)
	}
	return by + " of another session"
}
