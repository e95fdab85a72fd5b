package readers_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cachebro/scripts/testkit/conformance"
	"cachebro/store"
	"cachebro/store/readers"
	"cachebro/store/tokens"
	"cachebro/store/wire"
)

// disk is a KV in memory; if broken is set, it fails.
type disk struct {
	mu     sync.Mutex
	m      map[string][]byte
	broken bool
}

var errBroken = errors.New("disk is broken")

func (d *disk) Get(k string) ([]byte, bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b, ok := d.m[k]
	return b, ok, nil
}

func (d *disk) Set(k string, v []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken {
		return errBroken
	}
	d.m[k] = v
	return nil
}

func (d *disk) Delete(k string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.m, k)
	return nil
}

func (d *disk) Scan(prefix string, fn func(string, []byte) error) error {
	d.mu.Lock()
	all := maps.Clone(d.m)
	d.mu.Unlock()
	for k, v := range all {
		if len(k) >= len(prefix) && k[:len(prefix)] == prefix {
			if err := fn(k, v); err != nil {
				return err
			}
		}
	}
	return nil
}

func TestRestart(t *testing.T) {
	for _, c := range []struct {
		name    string
		restart func(p *project, kv *disk)
		kept    bool
	}{
		{"at once", func(p *project, _ *disk) { p.shown.Close(); p.Advance(t, 2*time.Second) }, true},
		{"after a pause", func(p *project, _ *disk) { p.shown.Close(); p.Advance(t, 29*time.Minute) }, true},
		{"after too long a pause", func(p *project, _ *disk) { p.shown.Close(); p.Advance(t, 31*time.Minute) }, false},
		{"read by somebody unknown, and not decided", func(p *project, _ *disk) {
			p.Unknown(t).(*direct).ReadPending(t, "t1", conformance.Read{Path: "f"})
			p.shown.Close()
		}, false},
		{"after a crash", func(*project, *disk) {}, false},
		{"with a clock that went back", func(p *project, _ *disk) { p.shown.Close(); p.Advance(t, -time.Hour) }, false},
		{"after a crash following a restart", func(p *project, kv *disk) { p.shown.Close(); p.open(t, kv) }, false},
		{"when it could not be saved", func(p *project, kv *disk) { kv.broken = true; p.shown.Close(); kv.broken = false }, false},
		{"with garbage", func(p *project, kv *disk) {
			p.shown.Close()
			for k, v := range kv.m {
				if len(v) > 20 {
					kv.m[k] = v[:len(v)/2]
				}
			}
		}, false},
	} {
		kv := &disk{m: map[string][]byte{}}
		p := newProject(t, kv)
		p.Write(t, "f", conformance.Text(100))
		r := p.Reader(t)
		r.Read(t, conformance.Read{Path: "f"})
		c.restart(p, kv)
		p.open(t, kv)
		if got := r.Read(t, conformance.Read{Path: "f"}).Unchanged(); got != c.kept {
			t.Errorf("%s: kept %v, want %v", c.name, got, c.kept)
		}
	}
}

func TestRestartKeepsWhatWasAsked(t *testing.T) {
	kv := &disk{m: map[string][]byte{}}
	p := newProject(t, kv)
	p.Write(t, "f", conformance.Text(100))
	r := p.Reader(t)
	r.Read(t, conformance.Read{Path: "f"})
	r.Read(t, conformance.Read{Path: "f"})
	if err := p.shown.Close(); err != nil {
		t.Fatal(err)
	}
	p.open(t, kv)
	if a := r.Read(t, conformance.Read{Path: "f"}); !a.Full() {
		t.Errorf("asked twice, over a restart: %.80q", a.Text)
	}
}

func TestAccounts(t *testing.T) {
	kv := &disk{m: map[string][]byte{}}
	p := newProject(t, kv)
	p.Write(t, "f", conformance.Text(100))
	r := p.Reader(t).(*direct)
	for range 2 {
		r.Read(t, conformance.Read{Path: "f"})
	}
	p.Write(t, "f", conformance.WithLine(conformance.Text(100), 50, "x"))
	r.Read(t, conformance.Read{Path: "f"})
	r.Agent(t, "sub").Read(t, conformance.Read{Path: "f"})
	m := p.shown.Metrics(r.id.Session, false)
	if m.Calls != 4 || m.Unchanged != 1 || m.Diffs != 1 || m.Contexts != 2 || m.Saved() != m.Full-m.Sent || m.Saved() <= 0 {
		t.Errorf("%+v", m)
	}
	if len(m.Tools) != 1 || m.Tools[0].Tool != "read_file" {
		t.Errorf("tools %+v", m.Tools)
	}
	// Every context pays for the schema, including later ones.
	p.shown.Spend(r.id, "schema", 0, 3100, true, "")
	p.shown.Spend(r.id, "recovery", 0, 400, true, "")
	r.Agent(t, "third").Read(t, conformance.Read{Path: "f"})
	m = p.shown.Metrics(r.id.Session, false)
	if m.Schema != 9300 || m.Overhead != 9700 || m.Saved() >= 0 || m.Percent() >= 0 {
		t.Errorf("schema %d, overhead %d, saved %d", m.Schema, m.Overhead, m.Saved())
	}
	if d := p.shown.Metrics(r.id.Session, true); d.Calls != 5 || d.Overhead != 9700 {
		t.Errorf("first delta %+v", d)
	}
	if d := p.shown.Metrics(r.id.Session, true); d.Calls != 0 || d.Overhead != 0 || d.Full != 0 || len(d.Tools) != 0 {
		t.Errorf("second delta %+v", d)
	}
	r.Read(t, conformance.Read{Path: "f", Force: true})
	if d := p.shown.Metrics("", true); d.Calls != 1 || d.Saved() != 0 {
		t.Errorf("third delta %+v", d)
	}
	// If another text was delivered, nothing counts as saved.
	a := r.ReadPending(t, "t1", conformance.Read{Path: "f"})
	r.Commit(t, "t1", "nothing of the sort"+a.Text)
	if d := p.shown.Metrics("", true); d.Calls != 0 {
		t.Errorf("uncommitted: %+v", d)
	}
	// A kill loses only what came after the last flush.
	if err := p.shown.Flush(); err != nil {
		t.Fatal(err)
	}
	p.open(t, kv)
	if got := p.shown.Metrics(r.id.Session, false); got.Calls != 6 || got.Schema != 9300 {
		t.Errorf("after a restart %+v", got)
	}
}

func TestPins(t *testing.T) {
	p := newProject(t, nil)
	p.Write(t, "f", conformance.Text(100))
	old := store.Hash(sha256.Sum256([]byte(conformance.Text(100))))
	r := p.Reader(t)
	r.Read(t, conformance.Read{Path: "f"})
	if _, ok := p.shown.PinnedContents()[old]; !ok {
		t.Error("a live reader's base is not pinned")
	}
	p.Write(t, "f", conformance.WithLine(conformance.Text(100), 50, "x"))
	r.Read(t, conformance.Read{Path: "f"})
	if pins := p.shown.PinnedContents(); len(pins) != 1 {
		t.Errorf("%d pins after the base was superseded", len(pins))
	}
	p.Advance(t, 2*time.Hour)
	if pins := p.shown.PinnedContents(); len(pins) != 0 {
		t.Errorf("%d pins after everything expired", len(pins))
	}
}

// If retention removed a base nevertheless, the answer is the full text, not an error.
func TestPrunedBase(t *testing.T) {
	p := newProject(t, nil)
	p.Write(t, "f", conformance.Text(100))
	r := p.Reader(t)
	r.Read(t, conformance.Read{Path: "f"})
	p.Write(t, "f", conformance.WithLine(conformance.Text(100), 50, "x"))
	delete(p.blobs, sha256.Sum256([]byte(conformance.Text(100))))
	if a := r.Read(t, conformance.Read{Path: "f"}); a.Err != nil || !a.Full() {
		t.Errorf("%v %.80q", a.Err, a.Text)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	p := newProject(t, nil)
	p.Write(t, "f", conformance.Text(20))
	for i := range 300 {
		d := &direct{p: p, known: true, id: store.Reader{Session: store.SessionID(fmt.Sprint("s", i))}}
		d.Read(t, conformance.Read{Path: "f"})
		d.Read(t, conformance.Read{Path: "f", Offset: 1, Limit: 1})
	}
	newest := &direct{p: p, known: true, id: store.Reader{Session: "s299"}}
	if a := newest.Read(t, conformance.Read{Path: "f"}); !a.Unchanged() {
		t.Errorf("the newest session was forgotten: %.60q", a.Text)
	}
	oldest := &direct{p: p, known: true, id: store.Reader{Session: "s0"}}
	if a := oldest.Read(t, conformance.Read{Path: "f"}); !a.Full() {
		t.Errorf("300 sessions are kept: %.60q", a.Text)
	}
	one := p.Reader(t)
	for i := range 3000 {
		name := fmt.Sprint("f", i)
		p.Write(t, name, conformance.Text(20))
		one.Read(t, conformance.Read{Path: name})
	}
	if pins := len(p.shown.PinnedContents()); pins > 2 {
		t.Errorf("%d pins of one content", pins)
	}
	if a := one.Read(t, conformance.Read{Path: "f2999"}); !a.Unchanged() {
		t.Errorf("%.60q", a.Text)
	}
	if a := one.Read(t, conformance.Read{Path: "f0"}); !a.Full() {
		t.Errorf("%.60q", a.Text)
	}
}

// 50 agents read while a file changes. Each must be able to reconstruct the file from its answers,
// whoever else reads at the same time.
func TestManyReadersAtOnce(t *testing.T) {
	p := newProject(t, nil)
	base := conformance.Text(200)
	versions := make([]string, 20)
	for i := range versions {
		versions[i] = conformance.WithLine(base, 1+i*9, fmt.Sprint("version ", i))
		p.put(versions[i])
	}
	var wg sync.WaitGroup
	errs := make(chan error, 50)
	for n := range 50 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			mind := conformance.NewMind()
			id := store.Reader{Session: store.SessionID(fmt.Sprint("s", n%7)), Agent: fmt.Sprint(n)}
			for i := range 40 {
				content := versions[(i*7+n)/3%len(versions)]
				a, err := p.shown.Decide(context.Background(), readers.Request{
					Reader: id, Known: true, Path: "f", Hash: sha256.Sum256([]byte(content)), Tool: "read_file",
					Content: func() ([]byte, error) { return []byte(content), nil },
				})
				if err == nil {
					err = mind.Hear(conformance.Read{Path: "f"}, conformance.Answer{Text: a.Sent()}, content)
				}
				if err != nil {
					errs <- fmt.Errorf("reader %d, read %d: %w", n, i, err)
					return
				}
			}
		}()
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
}

func TestErrors(t *testing.T) {
	p := newProject(t, nil)
	id := store.Reader{Session: "s"}
	if _, err := p.shown.Decide(t.Context(), readers.Request{Reader: id, Known: true, Path: "f"}); err == nil {
		t.Error("a request without content is answered")
	}
	gone := errors.New("gone")
	if _, err := p.shown.Decide(t.Context(), readers.Request{Reader: id, Known: true, Path: "f", Content: func() ([]byte, error) { return nil, gone }}); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.shown.Decide(ctx, readers.Request{Reader: id, Known: true, Path: "f", Content: func() ([]byte, error) { return nil, nil }}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// BenchmarkDecide reads many paths in turn, so that no request is repeated. The full reads that
// make short answers possible are done while the timer is stopped. An edited file has a content
// that was never read before.
func BenchmarkDecide(b *testing.B) {
	const paths = 3 // so few that no text expires because of the others
	for _, lines := range []int{40, 200, 1150} {
		text := conformance.Text(lines)
		for _, name := range []string{wire.ReadFull, wire.ReadUnchanged, wire.ReadDiff, "edited"} {
			kind := name
			if name == "edited" {
				kind = wire.ReadDiff
			}
			b.Run(fmt.Sprintf("%s/%dkB", name, len(text)/1000), func(b *testing.B) {
				p := newProject(b, nil)
				contents := []string{text, conformance.WithLine(text, lines/2, "changed")}
				hashes := []store.Hash{p.put(contents[0]), p.put(contents[1])}
				read := func(i, version int, force bool) readers.Answer {
					content := []byte(contents[version])
					a, err := p.shown.Decide(context.Background(), readers.Request{
						Reader: store.Reader{Session: "s"}, Known: true, Path: store.Path(fmt.Sprint(i)),
						Hash: hashes[version], Tool: "read_file", Force: force,
						Content: func() ([]byte, error) { return content, nil },
					})
					if err != nil {
						b.Fatal(err)
					}
					return a
				}
				version := 0
				if kind == wire.ReadDiff {
					version = 1
				}
				for i := 0; i < b.N; i++ {
					if i%paths == 0 {
						b.StopTimer()
						for j := range paths {
							read(j, 0, true)
						}
						b.StartTimer()
					}
					if name == "edited" { // the hash alone decides whether a content is known
						binary.BigEndian.PutUint64(hashes[1][:], uint64(i))
					}
					if a := read(i%paths, version, kind == wire.ReadFull); a.Kind != kind {
						b.Fatalf("%s, want %s", a.Kind, kind)
					}
				}
			})
		}
	}
}

// A restart keeps what a reader learned without a read, and the fact that it has lost nothing so
// far. A reader that was inactive for a day is forgotten.
func TestRestartKeepsWhatWasTold(t *testing.T) {
	kv := &disk{m: map[string][]byte{}}
	p := newProject(t, kv)
	p.Write(t, "f", conformance.Text(100))
	r := p.Reader(t).(*direct)
	r.Read(t, conformance.Read{Path: "f"})
	other := p.put("another\n")
	p.Advance(t, time.Second)
	p.shown.NoteReported(r.id, "f", other, true)
	p.shown.CountTokens(r.id, 50_000)
	r.Event(t, "held")
	restart := func() {
		if err := p.shown.Close(); err != nil {
			t.Fatal(err)
		}
		p.open(t, kv)
	}
	restart()
	if h, way, at, ok := p.shown.ReportedSince(r.id, "f"); !ok || !way || h != other || at != p.now.UnixNano() {
		t.Errorf("told %v %v at %d, of %x", ok, way, at, h[:4])
	}
	if a := r.Read(t, conformance.Read{Path: "f"}); !a.Unchanged() {
		t.Errorf("nothing was lost: %.80q", a.Text)
	}
	p.Advance(t, 25*time.Hour)
	restart()
	if held := p.shown.Held(r.id); len(held) > 0 {
		t.Errorf("after a day: %q", held)
	}
}

// The size that an answer reports for the whole text is that of the present text, although after a
// change only the changed lines are measured.
func TestFullTokensOfChangedText(t *testing.T) {
	p := newProject(t, nil)
	r := rand.New(rand.NewPCG(3, 5))
	some := []string{"\n", "  \n", "// a comment\n", "/\n", "}\n", "});\n", "\tx := HTTPServer(1234)\n", "    é漢字 \xff;\r\n", "word\n", "\t\t\n"}
	line := func() string { return some[r.IntN(len(some))] }
	var lines []string
	for range 300 {
		lines = append(lines, line())
	}
	diffs := 0
	for n := range 400 {
		for range r.IntN(3) {
			at := r.IntN(len(lines))
			lines = slices.Replace(lines, at, at+r.IntN(min(3, len(lines)-at)), line(), line())
		}
		text := strings.Join(lines, "")
		if n%3 == 0 {
			text = strings.TrimSpace(text)
		}
		text = strings.ToValidUTF8(text, "?")
		a, err := p.shown.Decide(t.Context(), readers.Request{
			Reader: store.Reader{Session: "s"}, Known: true, Path: "f", Hash: p.put(text), Tool: "read_file",
			Content: func() ([]byte, error) { return []byte(text), nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		if want := tokens.EstimateString(text); a.FullTokens != want {
			t.Fatalf("answer %d, %s: %d tokens, want %d", n, a.Kind, a.FullTokens, want)
		}
		if a.Kind == wire.ReadDiff {
			diffs++
		}
	}
	if diffs < 100 {
		t.Errorf("only %d diffs", diffs)
	}
}
