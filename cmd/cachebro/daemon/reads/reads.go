package reads

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/cmd/cachebro/daemon/survey"
	"cachebro/cmd/cachebro/daemon/versions"
	"cachebro/store"
	"cachebro/store/diff"
	"cachebro/store/leaf/ignore"
	"cachebro/store/leaf/text"
	"cachebro/store/onwire"
	"cachebro/store/readers"
	"cachebro/store/tokens"
	"cachebro/store/wire"
)

// ReaderOf returns the reader that makes a request. A reader is one context window. An MCP call is
// matched to its reader by the tool_use id that the client's hook announced, because the server's
// environment may name another session.
func (rd *Reads) ReaderOf(q wire.Reader, client string) (r store.Reader, known bool) {
	if r, ok := rd.Attribution.ReaderOf(q.ToolUse); ok {
		return r, true
	}
	if q.Connection != "" {
		return store.Reader{Session: store.SessionID(readers.ConnectionSession + q.Connection)}, true
	}
	if q.Session != "" && client != "mcp" {
		return store.Reader{Session: store.SessionID(q.Session), Agent: q.Agent}, true
	}
	return store.Reader{}, false
}

// Event records what a client reports about the epochs of its context.
func (rd *Reads) Event(r store.Reader, e wire.SessionEvent) {
	if e.Event == "connect" && e.Client == "mcp" {
		return // the start of a server does not change the context
	}
	rd.Shown.Event(readers.Event{Reader: r, Name: e.Event})
	if e.Checked && r.Agent == "" {
		rd.Shown.TranscriptCheck(r.Session, e.Alive, e.Alive != nil)
	}
}

func (rd *Reads) read(ctx context.Context, r *wire.Request, q wire.ReadRequest) (any, []byte, error) {
	reader, known := rd.ReaderOf(q.Reader, r.Hello.Client)
	if known {
		rd.NoteContext(reader, q.Context) // before anything can fail
	}
	if q.Offset < 0 || q.Limit < 0 || q.DiffOffset < 0 {
		return nil, nil, wire.Errorf(wire.ErrBadRequest, "lines count from 1", "offset, limit and diff_offset cannot be negative")
	}
	p, err := rd.Paths.Clean(q.Path)
	if err != nil {
		return nil, nil, err
	}
	sq := readers.Request{
		Reader: reader, Known: known, Path: p, Offset: q.Offset, Limit: q.Limit, Force: q.Force, DiffOffset: q.DiffOffset, MaxTokens: q.MaxTokens, Small: q.Small,
		Pending: q.Pending, ToolUse: q.Reader.ToolUse, Tool: q.Tool, Listing: q.Listing,
	}
	if q.Listing {
		if strings.HasSuffix(string(q.Path), "/.") { // a listing of one level
			sq.Path += "/."
		}
		body := r.Body
		sq.Hash, sq.Content = rd.Texts.Add(body), func() ([]byte, error) { return body, nil }
	} else {
		l, err := rd.Survey.Look(ctx, p)
		if err != nil {
			return nil, nil, err
		}
		sq.Hash, sq.Content = l.Hash, l.Content
		if known {
			sq.Renamed = rd.earlierNames(reader, p, l.Version)
		}
	}
	if q.Rewrite != nil {
		sq.Rewrite = &readers.Rewrite{
			Rendering: store.Rendering(q.Rewrite.Rendering), StartLine: q.Rewrite.StartLine, NumLines: q.Rewrite.NumLines,
			Text: string(r.Body), ClientUnchanged: q.Rewrite.ClientUnchanged, Part: q.Rewrite.Part,
		}
	}
	a, body, err := rd.Answer(ctx, r, sq)
	if err != nil {
		return nil, nil, readError(p, err)
	}
	if known && !q.Listing && a.Kind != wire.ReadLarge {
		rd.Sets.NoteToolRead(reader.Session, q.Tool, p)
	}
	return a, body, nil
}

// Answer decides what a reader gets. If the answer was recorded as shown but cannot be sent,
// everything that the reader was shown is forgotten.
func (rd *Reads) Answer(ctx context.Context, r *wire.Request, q readers.Request) (wire.ReadAnswer, []byte, error) {
	a, err := rd.Shown.Decide(ctx, q)
	if err != nil {
		return wire.ReadAnswer{}, nil, err
	}
	if !q.Pending && q.Known {
		r.Written = func(err error) {
			if err != nil {
				rd.Shown.Event(readers.Event{Reader: q.Reader, Name: "lost"})
			}
		}
	}
	return a.ReadAnswer, []byte(a.Text), nil
}

// NoteContext records what the client's transcript says about a reader's context.
func (rd *Reads) NoteContext(r store.Reader, word string) {
	switch word {
	case wire.ContextHeld, wire.ContextUnsure, wire.ContextFell:
		rd.Shown.Event(readers.Event{Reader: r, Name: word})
	}
}

func readError(p store.Path, err error) error {
	if errors.Is(err, readers.ErrBeyondEnd) {
		return wire.Errorf(wire.ErrBadRequest, "ask for a smaller offset", "%s: %v", onwire.Display(p), err)
	}
	if errors.Is(err, store.ErrPruned) || errors.Is(err, store.ErrDamaged) {
		return onwire.Error(err)
	}
	return fmt.Errorf("%s: %w", onwire.Display(p), err)
}

// NamesWithin is how many of a file's newest versions are searched for its earlier names. The bound
// keeps the first read of a file with 20,000 versions as quick as any other.
const NamesWithin = 500

// earlierNames returns the recent names under which a reader was last shown a content that the file had
// under that name. It returns none if the reader was shown something under the present name. Without
// the comparison of contents, a name would also count that another file has got since.
func (rd *Reads) earlierNames(r store.Reader, p store.Path, v store.Version) []store.Path {
	if v.Seq == 0 {
		return nil
	}
	if _, _, _, ok := rd.Shown.ShownSince(r, p); ok {
		return nil
	}
	hist, _, err := rd.Store.Log(store.Filter{Path: p, Baselines: true, Limit: NamesWithin})
	if err != nil {
		return nil
	}
	var names []store.Path
	for _, v := range hist {
		if v.Path == p || slices.Contains(names, v.Path) {
			continue
		}
		if h, _, _, ok := rd.Shown.ShownSince(r, v.Path); ok && h == v.Blob {
			names = append(names, v.Path)
		}
	}
	return names
}

// shownText records a client's own result as pending, without replacing it.
func (rd *Reads) shownText(ctx context.Context, r *wire.Request, q wire.Shown) (any, []byte, error) {
	p, err := rd.Paths.Clean(q.Path)
	if err != nil {
		return nil, nil, err
	}
	l, err := rd.Survey.Look(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	reader, known := rd.ReaderOf(q.Reader, r.Hello.Client)
	sq := readers.Request{
		Reader: reader, Known: known, Path: p, Hash: l.Hash, Content: l.Content, Force: true, Pending: true, ToolUse: q.Reader.ToolUse, Tool: "Read",
		Rewrite: &readers.Rewrite{Rendering: store.Rendering(q.Rendering), StartLine: q.StartLine, NumLines: q.NumLines, Text: string(r.Body)},
	}
	if _, err := rd.Shown.Decide(ctx, sq); err != nil {
		return nil, nil, readError(p, err)
	}
	if known {
		rd.Sets.NoteToolRead(reader.Session, "Read", p)
	}
	return wire.Empty{}, nil, nil
}

// commit confirms pending deliveries, identified by the exact text that was delivered.
func (rd *Reads) commit(_ context.Context, r *wire.Request, q wire.Commit) (any, []byte, error) {
	reader, known := rd.ReaderOf(q.Reader, r.Hello.Client)
	if !known {
		return nil, nil, wire.Errorf(wire.ErrBadRequest, "", "the commit names no session")
	}
	rd.Shown.CountTokens(reader, q.Given)
	return wire.CommitAnswer{Own: rd.Shown.Commit(reader, q.Calls)}, nil, nil
}

// forget drops the record of what a reader was shown. Its answer names the reader's session, by which
// the daemon of another project can find the reader too. A claimed session is good enough here, because
// a needless full text does no harm.
func (rd *Reads) forget(_ context.Context, _ *wire.Request, q wire.Reader) (any, []byte, error) {
	r, known := rd.ReaderOf(q, "")
	if known {
		rd.Shown.Event(readers.Event{Reader: r, Name: "lost"})
	}
	return wire.Reader{Session: string(r.Session), Agent: r.Agent, ToolUse: q.ToolUse}, nil, nil
}

// editWait bounds how long the report of an edit waits until the old content is in the store. The
// tool has already written, and only the tool waits for the answer.
const editWait = 100 * time.Millisecond

// given records lines of cachebro's own words that a reader has received. It also returns the first
// of the requested lines that the session has received.
func (rd *Reads) given(_ context.Context, r *wire.Request, q wire.GivenQuery) (any, []byte, error) {
	reader, known := rd.ReaderOf(q.Reader, r.Hello.Client)
	if known && len(q.Add) > 0 {
		rd.Shown.GiveOwnWords(reader, q.Add)
	}
	return wire.GivenAnswer{Line: rd.Shown.GivenOwnWords(reader.Session, known, q.Lines)}, nil, nil
}

func (rd *Reads) ownEdit(ctx context.Context, r *wire.Request, q wire.OwnEdit) (any, []byte, error) {
	p, err := rd.Paths.Clean(q.Path)
	if err != nil {
		return nil, nil, err
	}
	before, err := onwire.ParseHash(q.Before)
	if err != nil {
		return nil, nil, err
	}
	reader, known := rd.ReaderOf(q.Reader, r.Hello.Client)
	body := r.Body
	// Wait until the old content is in the store. It may have been written only a moment ago.
	if known && before != (store.Hash{}) && !rd.Store.Has(before) {
		rd.Ingest.WaitHead(ctx, editWait)
	}
	rd.Texts.Add(body)
	err = rd.Shown.OwnEdit(ctx, readers.Edit{
		Reader: reader, Known: known, Path: p, Before: before, After: sha256.Sum256(body), Content: func() ([]byte, error) { return body, nil },
		Old: q.Old, New: q.New, All: q.All, Whole: q.Old == "", ToolUse: q.Reader.ToolUse, Tool: q.Tool,
		// A client's hook reports its Edit after the edit. The result of cachebro's own tool has
		// not arrived at the client yet.
		Pending: r.Hello.Client == "mcp" && q.Reader.ToolUse != "",
	})
	if err != nil {
		return nil, nil, readError(p, err)
	}
	return wire.Empty{}, nil, nil
}

// Stale returns a warning for a reader that is about to edit a file, if somebody else has changed
// the file since the reader was shown it. It returns "" if no warning is needed.
func (rd *Reads) Stale(ctx context.Context, r store.Reader, p store.Path) string {
	h, at, how, ok := rd.Shown.ShownSince(r, p)
	if !ok {
		return ""
	}
	l, err := rd.Survey.Look(ctx, p)
	if err != nil || l.Hash == h || !l.Known {
		return ""
	}
	if reported, _, _, wasReported := rd.Shown.ReportedSince(r, p); wasReported && reported == l.Hash {
		return "" // reported already, with a prompt or when this edit was held
	}
	v := l.Version
	if v.Time <= at || v.Actor.Session == r.Session && v.Actor.Agent == r.Agent && v.Actor.Tool != "Bash" {
		return ""
	}
	text := fmt.Sprintf("cachebro: %s was changed at %s by %s after %s", readers.Printable(p), onwire.Clock(v.Time), attribution.ByWhom(v.Actor), how)
	if lines := rd.differing(h, l); lines != "" {
		text += "; " + lines
	}
	return text + ". Editing is not blocked."
}

// differing lists the lines of the present content that the old content lacks.
func (rd *Reads) differing(old store.Hash, l survey.File) string {
	was, err := rd.Store.Content(old)
	if err != nil {
		return ""
	}
	now, err := l.Content()
	if err != nil || text.Binary(was) || text.Binary(now) {
		return ""
	}
	var ranges []string
	edits := diff.Compare(was, now).Edits
	for i, e := range edits {
		if i == 3 && len(edits) > 4 {
			ranges = append(ranges, fmt.Sprintf("%d more places", len(edits)-3))
			break
		}
		first, last := e.NewFrom+1, e.NewTo
		if last < first { // lines were removed, so name the lines at that place now
			first, last = max(e.NewFrom, 1), max(e.NewFrom, 1)
		}
		if first == last {
			ranges = append(ranges, fmt.Sprint(first))
		} else {
			ranges = append(ranges, fmt.Sprintf("%d-%d", first, last))
		}
	}
	switch len(ranges) {
	case 0:
		return ""
	case 1:
		if !strings.Contains(ranges[0], "-") {
			return "line " + ranges[0] + " differs"
		}
	}
	return "lines " + strings.Join(ranges, ", ") + " differ"
}

// Metrics returns what a session's reads cost and saved.
func (rd *Reads) Metrics(_ context.Context, q wire.MetricsQuery) (wire.Metrics, []byte, error) {
	session, err := versions.SessionWith(rd.Store, q.Session, func(s store.Session) (bool, error) { return rd.Shown.Metrics(s.ID, false).Calls > 0, nil })
	if err != nil {
		return wire.Metrics{}, nil, err
	}
	m := rd.Shown.Metrics(session, q.Delta)
	out := wire.Metrics{
		Session: string(session), Tools: []wire.ToolMetric{}, Calls: int(m.Calls), Full: m.Full, Sent: m.Sent, Overhead: m.Overhead,
		Saved: m.Saved(), Percent: m.Percent(), Cached: int(m.Unchanged), Diffs: int(m.Diffs), Contexts: int(m.Contexts),
	}
	for _, t := range m.Tools {
		out.Tools = append(out.Tools, wire.ToolMetric{Tool: t.Tool, Calls: int(t.Calls), Full: t.Full, Sent: t.Sent, Saved: t.Saved()})
	}
	return out, nil, nil
}

func (rd *Reads) spend(_ context.Context, r *wire.Request, q wire.Spend) (any, []byte, error) {
	if q.Sent == 0 && len(r.Body) > 0 {
		q.Sent = int64(tokens.Estimate(r.Body))
	}
	reader, known := rd.ReaderOf(q.Reader, r.Hello.Client)
	if !known && q.Reader.Session != "" { // for counting, the claimed session is good enough
		reader = store.Reader{Session: store.SessionID(q.Reader.Session), Agent: q.Reader.Agent}
	}
	if q.Credit {
		return wire.SpendAnswer{Booked: rd.Shown.Afford(reader, q.Tool, q.Sent)}, nil, nil
	}
	rd.Shown.Spend(reader, q.Tool, q.Full, q.Sent, q.Kind == "overhead", q.Answer)
	return wire.SpendAnswer{Booked: true}, nil, nil
}

// storeForTool stores the contents that cachebro's own tools send before and after a write, if
// nothing is mounted. On a mount it only stores an ignored file before the write, because the
// overlay saves ignored files only within a budget.
func (rd *Reads) storeForTool(ctx context.Context, r *wire.Request, q wire.Ingest) (any, []byte, error) {
	p, err := rd.Paths.Clean(q.Path)
	if err != nil {
		return nil, nil, err
	}
	if q.PID > 0 {
		now := time.Now().UnixNano()
		a := rd.Attribution.Actor(attribution.OwnerOf(q.PID), 0, now, string(p))
		a.Comm = cmp.Or(a.Comm, "cachebro") // it is empty if the process never wrote through a mount
		ctx = survey.WithActor(ctx, a)
	}
	class := rd.Source.Class(ctx, p)
	out := wire.Ingest{Path: q.Path, Class: class.String()}
	if class == ignore.Tracked && rd.Survey.Mounted() {
		out.Kept = true
		return out, nil, nil
	}
	// The file itself is stored. The body only contains what the file should contain.
	l, err := rd.Survey.Look(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	if len(r.Body) > 0 && l.Hash != sha256.Sum256(r.Body) {
		return nil, nil, wire.Errorf(wire.ErrConflict, "read it again", "%s differs from the content that was sent with the request", onwire.Display(p))
	}
	if content, err := l.Content(); !l.Known && class == ignore.Ignored && q.PID == 0 && err == nil {
		base, _, err := rd.Store.Current(l.Path)
		if err != nil {
			return nil, nil, onwire.Error(err)
		}
		_, l.Known = rd.Survey.StoreFound(ctx, l.Path, l.Stat, content, rd.Survey.Mounted(), base)
	}
	out.Kept = l.Known
	return out, nil, nil
}
