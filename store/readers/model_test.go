package readers_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"cachebro/scripts/testkit/conformance"
	"cachebro/store"
	"cachebro/store/readers"
	"cachebro/store/tokens"
	"cachebro/store/wire"

	"pgregory.net/rapid"
)

// heard is an answer that a reader received. It is stored so that the context can be rewound.
type heard struct {
	use   string
	path  string
	after int64 // tokens that the context had received by then, including this answer
	hear  func(m *conformance.Mind) error
}

// soul is a reader with what it believes about each file, and the log of the answers from which its
// beliefs come.
type soul struct {
	*direct
	minds  map[string]*conformance.Mind
	log    []heard
	client string    // its kind of client, see below
	given  int64     // tokens
	active time.Time // when it last asked
	fell   bool      // the context lost something, and the client's transcript shows that
}

// The kinds of clients. All of them lose their whole context after half an hour without a request.
const (
	recorded = "recorded" // clears old results at any time, which its transcript shows
	prunes   = "prunes"   // drops everything further back than 40,000 tokens, without reporting it
	cuts     = "cuts"     // known by its connection only; cuts long answers without reporting it
)

const cutAt = 400 // a client of the kind cuts may cut answers with more bytes than this

// asks reports to the Tracker what the client's transcript shows before the soul's next read.
func (s *soul) asks(m *model) {
	s.active = m.p.now
	if s.client != recorded {
		return
	}
	name := "held"
	switch {
	case s.fell:
		name = "fell"
	case rapid.IntRange(0, 4).Draw(m.rt, "word") == 0:
		name = "unsure"
	}
	s.fell = false
	m.rt.Logf("%v: %s", s.id, name)
	s.Event(m.t, name)
}

// gets counts a text that enters the context.
func (s *soul) gets(text string) { s.given += int64(tokens.EstimateString(text)) }

// upTo returns n or a larger number, so that the parts of one result stay together.
func (s *soul) upTo(n int) int {
	for n > 0 && n < len(s.log) && s.log[n].use != "" && s.log[n].use == s.log[n-1].use {
		n++
	}
	return n
}

// lose drops the oldest answers. Later answers that depend on them cannot be understood any more.
func (s *soul) lose(n int) {
	log := s.log[n:]
	s.forget()
	for _, h := range log {
		s.log = append(s.log, h)
		_ = h.hear(s.mind(h.path))
	}
}

func (s *soul) mind(path string) *conformance.Mind {
	if s.minds[path] == nil {
		s.minds[path] = conformance.NewMind()
	}
	return s.minds[path]
}

func (s *soul) take(t *rapid.T, h heard) {
	h.after = s.given
	s.log = append(s.log, h)
	if err := h.hear(s.mind(h.path)); err != nil {
		t.Fatalf("reader %v: %v", s.id, err)
	}
}

func (s *soul) forget() { s.minds, s.log = map[string]*conformance.Mind{}, nil }

// What a reader can reconstruct from everything that it was sent always equals the file, whatever
// happens to files and contexts in between.
func TestReadersBelieveTheTruth(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{rt: rt, t: t, kv: &disk{m: map[string][]byte{}}}
		m.p = newProject(t, m.kv)
		m.write("a", baseText(rt))
		m.write("b", baseText(rt))
		for i, client := range []string{recorded, recorded, prunes, cuts} {
			// Two of the readers are agents of one session. The others have sessions of their own.
			id := store.Reader{Session: []store.SessionID{"s0", "s0", "s1", "s2"}[i], Agent: []string{"", "sub", "", ""}[i]}
			m.readers = append(m.readers, &soul{direct: &direct{p: m.p, known: true, id: id}, minds: map[string]*conformance.Mind{}, client: client, active: m.p.now})
			if client == cuts {
				m.readers[i].small = cutAt
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"write":   func(rt *rapid.T) { m.rt = rt; m.doWrite() },
			"restore": func(rt *rapid.T) { m.rt = rt; m.doRestore() },
			"read":    func(rt *rapid.T) { m.rt = rt; m.doRead() },
			"read2":   func(rt *rapid.T) { m.rt = rt; m.doRead() },
			"pending": func(rt *rapid.T) { m.rt = rt; m.doBatch() },
			"edit":    func(rt *rapid.T) { m.rt = rt; m.doEdit() },
			"swap":    func(rt *rapid.T) { m.rt = rt; m.doSwap() },
			"epoch":   func(rt *rapid.T) { m.rt = rt; m.doEpoch() },
			"rewind":  func(rt *rapid.T) { m.rt = rt; m.doRewind() },
			"parts":   func(rt *rapid.T) { m.rt = rt; m.doParts() },
			"pages":   func(rt *rapid.T) { m.rt = rt; m.doPages() },
			"clear":   func(rt *rapid.T) { m.rt = rt; m.doClear() },
			"later":   func(rt *rapid.T) { m.rt = rt; m.doLater() },
			"restart": func(rt *rapid.T) { m.rt = rt; m.doRestart() },
		})
	})
}

type model struct {
	rt      *rapid.T
	t       *testing.T
	p       *project
	kv      *disk
	readers []*soul
	past    []string
	uses    int
	serial  int
}

func (m *model) write(path, text string) {
	m.rt.Logf("%s is now %d lines, %.4x", path, strings.Count(text, "\n"), sha256.Sum256([]byte(text)))
	m.past = append(m.past, text)
	m.p.Write(m.t, path, text)
}

func baseText(rt *rapid.T) string {
	return conformance.Text(rapid.IntRange(0, 90).Draw(rt, "lines"))
}

func (m *model) path() string  { return rapid.SampledFrom([]string{"a", "b"}).Draw(m.rt, "path") }
func (m *model) reader() *soul { return rapid.SampledFrom(m.readers).Draw(m.rt, "reader") }

// mutate changes a few lines; every new line is unique.
func (m *model) mutate(text string) string {
	lines := strings.SplitAfter(text, "\n")
	for range rapid.IntRange(1, 4).Draw(m.rt, "changes") {
		at := rapid.IntRange(0, len(lines)-1).Draw(m.rt, "at")
		m.serial++
		fresh := fmt.Sprintf("new line %d of some ordinary length and content\n", m.serial)
		switch rapid.IntRange(0, 4).Draw(m.rt, "how") {
		case 0:
			lines = append(lines[:at:at], lines[at+1:]...)
		case 1:
			lines = append(lines[:at:at], append([]string{fresh}, lines[at:]...)...)
		case 2:
			lines[at] = strings.TrimSuffix(lines[at], "\n") + "\n"
		case 3:
			lines = append(lines[:at:at], append([]string{"}\n", "\n", "}\n"}, lines[at:]...)...)
		default:
			lines[at] = fresh
		}
		if len(lines) == 0 {
			lines = []string{""}
		}
	}
	out := strings.Join(lines, "")
	if rapid.IntRange(0, 9).Draw(m.rt, "end") == 0 {
		out = strings.TrimSuffix(out, "\n")
	}
	return out
}

func (m *model) doWrite() {
	p := m.path()
	m.write(p, m.mutate(string(m.p.files[p])))
}

func (m *model) doRestore() { m.write(m.path(), rapid.SampledFrom(m.past).Draw(m.rt, "version")) }

// doSwap exchanges the contents of two files, as if their names were exchanged.
func (m *model) doSwap() {
	a, b := string(m.p.files["a"]), string(m.p.files["b"])
	m.write("a", b)
	m.write("b", a)
}

func (m *model) ask() conformance.Read {
	r := conformance.Read{Path: m.path()}
	n := strings.Count(string(m.p.files[r.Path]), "\n")
	switch rapid.IntRange(0, 5).Draw(m.rt, "ask") {
	case 0:
		r.Force = true
	case 1, 2:
		r.Offset = rapid.IntRange(1, max(1, n)).Draw(m.rt, "offset")
		r.Limit = rapid.IntRange(1, 40).Draw(m.rt, "limit")
	case 3:
		r.Limit = rapid.IntRange(1, 90).Draw(m.rt, "limit")
	}
	return r
}

func (m *model) heard(use string, r conformance.Read, a conformance.Answer) heard {
	content := string(m.p.files[r.Path])
	label, _, _ := strings.Cut(a.Text, "\n")
	m.rt.Logf("hears %q of %+v: %.60s", use, r, label)
	return heard{use: use, path: r.Path, hear: func(mind *conformance.Mind) error { return mind.Hear(r, a, content) }}
}

func (m *model) doRead() {
	s, r := m.reader(), m.ask()
	m.rt.Logf("%v", s.id)
	s.asks(m)
	m.answered(s, r, s.Read(m.t, r))
}

// answered records an answer, unless the client cut it.
func (m *model) answered(s *soul, r conformance.Read, a conformance.Answer) {
	if a.Err != nil {
		m.rt.Fatalf("read %+v: %v", r, a.Err)
	}
	s.gets(a.Text)
	if s.client == cuts && len(a.Text) > cutAt && rapid.Bool().Draw(m.rt, "cut") {
		m.rt.Logf("%v: cut", s.id)
		return
	}
	s.take(m.rt, m.heard("", r, a))
}

// doPages reads a file whose answer is too long for one part, in the pages that the server makes.
func (m *model) doPages() {
	s, path := m.reader(), m.path()
	s.asks(m)
	q, err := s.request(conformance.Read{Path: path})
	if err != nil {
		m.rt.Fatal(err)
	}
	q.MaxTokens = 300
	a, err := m.p.shown.Decide(context.Background(), q)
	if err != nil {
		m.rt.Fatal(err)
	}
	if a.Kind != wire.ReadLarge {
		m.answered(s, conformance.Read{Path: path}, conformance.Answer{Text: a.Sent()})
		return
	}
	for first := 1; first <= a.TotalLines; first += 15 {
		r := conformance.Read{Path: path, Offset: first, Limit: 15}
		m.answered(s, r, s.Read(m.t, r))
		if rapid.IntRange(0, 5).Draw(m.rt, "enough") == 0 {
			return
		}
	}
}

// doClear makes a client lose text. A client of the kind recorded drops the oldest results. A
// client of the kind prunes receives a lot of text, and drops what is too far back.
func (m *model) doClear() {
	s := m.reader()
	n := 0
	switch s.client {
	case recorded:
		n = s.upTo(rapid.IntRange(0, len(s.log)).Draw(m.rt, "cleared"))
		s.fell = s.fell || n > 0
	case prunes:
		more := int64(rapid.IntRange(1, 45_000).Draw(m.rt, "tokens"))
		s.given += more
		m.p.shown.CountTokens(s.id, more)
		for n < len(s.log) && s.given-s.log[n].after > 40_000 {
			n++
		}
	}
	m.rt.Logf("%v: lost %d of %d", s.id, n, len(s.log))
	s.lose(n)
}

func (m *model) doLater() {
	m.p.Advance(m.t, time.Duration(rapid.IntRange(1, 40).Draw(m.rt, "minutes"))*time.Minute)
	for _, s := range m.readers {
		if m.p.now.Sub(s.active) >= 30*time.Minute {
			s.lose(len(s.log)) // without reporting it
		}
	}
}

// doRestart ends the daemon, by a crash or not. Meanwhile files change. If a hook left a mark
// because it could not report an event, the event "lost" follows when the daemon is back.
func (m *model) doRestart() {
	if rapid.IntRange(0, 5).Draw(m.rt, "crash") > 0 {
		m.rt.Logf("ends")
		if err := m.p.shown.Close(); err != nil {
			m.rt.Fatal(err)
		}
	}
	if rapid.Bool().Draw(m.rt, "written") {
		m.doWrite()
	}
	if rapid.Bool().Draw(m.rt, "long") {
		m.doLater()
	}
	m.p.open(m.t, m.kv)
	if s := m.reader(); s.client != cuts && rapid.IntRange(0, 3).Draw(m.rt, "mark") == 0 {
		m.rt.Logf("%v: lost", s.id)
		s.Event(m.t, "lost")
		for _, o := range m.readers {
			if o == s || s.id.Agent == "" && o.id.Session == s.id.Session {
				o.forget()
			}
		}
	}
}

// doParts runs one shell command that shows several files, or parts of them. The model receives all
// of it as decided, or the client's own text, or neither.
func (m *model) doParts() {
	s := m.reader()
	if s.client == cuts {
		return // this client has no hooks
	}
	s.asks(m)
	m.uses++
	use := fmt.Sprint("t", m.uses)
	var own, ours []heard
	plain := false
	ownText, oursText := "", ""
	for part := range rapid.IntRange(1, 3).Draw(m.rt, "parts") {
		r := conformance.Read{Path: m.path()}
		lines := strings.SplitAfter(string(m.p.files[r.Path]), "\n")
		if lines[len(lines)-1] == "" {
			lines = lines[:len(lines)-1]
		}
		if len(lines) == 0 {
			continue
		}
		first, last := 1, len(lines)
		if rapid.Bool().Draw(m.rt, "range") {
			first = rapid.IntRange(1, len(lines)).Draw(m.rt, "first")
			last = rapid.IntRange(first, len(lines)).Draw(m.rt, "last")
			r.Offset, r.Limit = first, last-first+1
		}
		text := strings.Join(lines[first-1:last], "")
		q, err := s.request(r)
		if err != nil {
			m.rt.Fatal(err)
		}
		q.Pending, q.ToolUse, q.Tool = true, use, "Bash"
		q.Rewrite = &readers.Rewrite{Rendering: store.RenderRaw, StartLine: first, NumLines: last - first + 1, Text: text, Part: part + 1}
		a, err := m.p.shown.Decide(context.Background(), q)
		if err != nil {
			m.rt.Fatal(err)
		}
		full := m.heard(use, r, conformance.Answer{Text: text})
		own, ownText = append(own, full), ownText+text
		content := string(m.p.files[r.Path])
		switch a.Kind {
		case wire.ReadKeep:
			ours, oursText = append(ours, full), oursText+text
		case wire.ReadUnchanged:
			said := fmt.Sprintf("[unchanged · lines %d-%d of %d · ~1 saved]", first, last, len(lines))
			ours, oursText = append(ours, m.heard(use, r, conformance.Answer{Text: said})), oursText+a.Text+"\n"
		case wire.ReadSpan:
			plain = plain || r.Limit > 0 // the model does not know what a range's answer reveals about other lines
			m.rt.Logf("hears lines %d.. of %s: %s", a.Start, r.Path, a.Note)
			ours = append(ours, heard{use: use, path: r.Path, hear: func(mind *conformance.Mind) error { return mind.Span(a.Start, a.Text, a.Note, content) }})
			oursText += a.Note + "\n" + a.Text + "\n"
		default:
			m.rt.Fatalf("a part is answered by %s", a.Kind)
		}
	}
	if rapid.IntRange(0, 3).Draw(m.rt, "between") == 0 {
		m.doWrite()
	}
	took, got, text := "ours", ours, oursText
	switch fate := rapid.IntRange(0, 5).Draw(m.rt, "fate"); {
	case fate == 0:
		took, got, text = "other", nil, ownText[:len(ownText)/2]
	case fate == 1 || plain:
		took, got, text = "own", own, ownText
	}
	m.rt.Logf("%v: %s", s.id, took)
	s.gets(text)
	m.p.shown.Commit(s.id, []wire.CommitCall{{ToolUse: use, Text: text, Took: took}})
	for _, h := range got {
		s.take(m.rt, h)
	}
}

// doBatch makes several calls at once, with changes in between. Some results are lost, some arrive
// as another text.
func (m *model) doBatch() {
	s := m.reader()
	m.rt.Logf("%v", s.id)
	if s.client == cuts {
		return // this client has no hooks
	}
	s.asks(m)
	var calls []wire.CommitCall
	var got []heard
	for range rapid.IntRange(1, 3).Draw(m.rt, "calls") {
		m.uses++
		use := fmt.Sprint("t", m.uses)
		r := m.ask()
		a := s.ReadPending(m.t, use, r)
		if a.Err != nil {
			m.rt.Fatalf("read %+v: %v", r, a.Err)
		}
		switch rapid.IntRange(0, 7).Draw(m.rt, "fate") {
		case 0: // cancelled
		case 1:
			calls = append(calls, wire.CommitCall{ToolUse: use, Text: a.Text[:len(a.Text)/2] + "…"})
			s.gets(calls[len(calls)-1].Text)
		default:
			calls = append(calls, wire.CommitCall{ToolUse: use, Text: a.Text})
			s.gets(a.Text)
			got = append(got, m.heard(use, r, a))
		}
		switch rapid.IntRange(0, 7).Draw(m.rt, "between") {
		case 0, 1:
			m.doWrite()
		case 2:
			if err := m.p.shown.Close(); err != nil {
				m.rt.Fatal(err)
			}
			m.p.open(m.t, m.kv)
		}
	}
	m.p.shown.Commit(s.id, calls)
	for _, h := range got {
		s.take(m.rt, h)
	}
}

func (m *model) doEdit() {
	s, p := m.reader(), m.path()
	m.rt.Logf("%v edits %s", s.id, p)
	s.active = m.p.now
	before := string(m.p.files[p])
	lines := strings.SplitAfter(before, "\n")
	at := rapid.IntRange(0, len(lines)-1).Draw(m.rt, "at")
	old := strings.Join(lines[at:min(len(lines), at+rapid.IntRange(1, 3).Draw(m.rt, "n"))], "")
	if cut := rapid.IntRange(0, 20).Draw(m.rt, "cut"); len(old) > cut+10 {
		old = old[cut:]
	}
	if old == "" || strings.Count(before, old) != 1 {
		return
	}
	m.serial++
	new := rapid.SampledFrom([]string{"", "x", fmt.Sprintf("edited %d", m.serial), fmt.Sprintf("edited %d\nand more\n", m.serial)}).Draw(m.rt, "new")
	after := conformance.Replace(before, old, new)
	m.write(p, after)
	err := m.p.shown.OwnEdit(context.Background(), readers.Edit{
		Reader: s.id, Known: true, Path: store.Path(p), Before: sha256.Sum256([]byte(before)), After: sha256.Sum256([]byte(after)),
		Content: func() ([]byte, error) { return []byte(after), nil }, Old: old, New: new,
	})
	if err != nil {
		m.rt.Fatal(err)
	}
	s.take(m.rt, heard{path: p, hear: func(mind *conformance.Mind) error { mind.Edited(old, new); return nil }})
}

func (m *model) doEpoch() {
	s := m.reader()
	name := rapid.SampledFrom([]string{"start", "precompact", "postcompact", "subagent-start", "prompt", "stop"}).Draw(m.rt, "event")
	m.rt.Logf("%v: %s", s.id, name)
	s.Event(m.t, name)
	if name == "prompt" || name == "stop" {
		return
	}
	for _, o := range m.readers {
		if o == s || s.id.Agent == "" && o.id.Session == s.id.Session && name != "subagent-start" {
			o.forget()
		}
	}
}

// doRewind returns the main agent to an earlier point of its transcript.
func (m *model) doRewind() {
	s := m.reader()
	if s.id.Agent != "" {
		return
	}
	m.rt.Logf("%v rewinds", s.id)
	keep := s.upTo(rapid.IntRange(0, len(s.log)).Draw(m.rt, "keep"))
	var alive []string
	log := s.log[:keep]
	s.forget()
	for _, h := range log {
		if h.use != "" {
			alive = append(alive, h.use)
		}
	}
	// Without a tool use nothing shows that the text is still in the context; the reader may
	// still remember it.
	for _, h := range log {
		s.log = append(s.log, h)
		_ = h.hear(s.mind(h.path))
	}
	s.Alive(m.t, alive, true)
}
