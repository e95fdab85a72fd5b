package readers_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"testing"
	"time"

	"cachebro/scripts/testkit/conformance"
	"cachebro/store"
	"cachebro/store/readers"
	"cachebro/store/wire"
)

// project holds files in memory, with every content that they ever had.
type project struct {
	mu    sync.Mutex
	files map[string][]byte
	links map[string]string
	names map[string][]store.Path
	blobs map[store.Hash][]byte
	now   time.Time
	shown *readers.Tracker
	n     int
}

func newProject(t testing.TB, kv readers.KV) *project {
	p := &project{files: map[string][]byte{}, links: map[string]string{}, names: map[string][]store.Path{}, blobs: map[store.Hash][]byte{}}
	p.now = time.Date(2026, 3, 1, 12, 40, 0, 0, time.UTC)
	p.open(t, kv)
	return p
}

func (p *project) open(t testing.TB, kv readers.KV) {
	s, err := readers.New(p, kv, readers.Options{Now: func() time.Time { return p.now }, Location: time.UTC})
	if err != nil {
		t.Fatal(err)
	}
	p.shown = s
}

func (p *project) Content(h store.Hash) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, ok := p.blobs[h]
	if !ok {
		return nil, fmt.Errorf("%x is gone", h[:4])
	}
	return b, nil
}

func (p *project) put(content string) store.Hash {
	h := store.Hash(sha256.Sum256([]byte(content)))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.blobs[h] = []byte(content)
	return h
}

func (p *project) Write(_ testing.TB, path, content string) {
	p.put(content)
	p.mu.Lock()
	p.files[path] = []byte(content)
	p.mu.Unlock()
}

func (p *project) WriteSameStat(t testing.TB, path, content string) { p.Write(t, path, content) }
func (p *project) Hidden() bool                                     { return true }
func (p *project) Remove(_ testing.TB, path string) {
	delete(p.files, path)
	delete(p.links, path)
	delete(p.names, path)
}
func (p *project) Symlink(_ testing.TB, target, path string) { p.links[path] = target }
func (p *project) Advance(_ testing.TB, d time.Duration)     { p.now = p.now.Add(d) }
func (p *project) Unknown(testing.TB) conformance.Reader     { return &direct{p: p} }
func (p *project) Rename(_ testing.TB, from, to string) {
	p.files[to] = p.files[from]
	p.names[to] = append([]store.Path{store.Path(from)}, p.names[from]...)
	delete(p.files, from)
	delete(p.names, from)
}

func (p *project) Reader(testing.TB) conformance.Reader {
	p.n++
	return &direct{p: p, known: true, id: store.Reader{Session: store.SessionID(fmt.Sprint("s", p.n))}}
}

// direct is a reader that calls Decide itself, without a client.
type direct struct {
	p     *project
	id    store.Reader
	known bool
	small int // Request.Small
}

func (d *direct) request(r conformance.Read) (readers.Request, error) {
	path := r.Path
	if to, ok := d.p.links[path]; ok {
		path = to
	}
	d.p.mu.Lock()
	content, ok := d.p.files[path]
	d.p.mu.Unlock()
	if !ok {
		return readers.Request{}, fmt.Errorf("%s: no such file", path)
	}
	return readers.Request{
		Reader: d.id, Known: d.known, Path: store.Path(r.Path), Hash: sha256.Sum256(content),
		Content: func() ([]byte, error) { return content, nil },
		Offset:  r.Offset, Limit: r.Limit, Force: r.Force, DiffOffset: r.DiffOffset,
		Renamed: d.p.names[path], Tool: "read_file", Small: d.small,
	}, nil
}

func (d *direct) do(t testing.TB, q readers.Request) conformance.Answer {
	t.Helper()
	a, err := d.p.shown.Decide(context.Background(), q)
	if err != nil {
		return conformance.Answer{Err: err}
	}
	if a.FullTokens < a.Tokens {
		t.Errorf("full %d, sent %d", a.FullTokens, a.Tokens)
	}
	return conformance.Answer{Text: a.Sent()}
}

func (d *direct) Read(t testing.TB, r conformance.Read) conformance.Answer {
	q, err := d.request(r)
	if err != nil {
		return conformance.Answer{Err: err}
	}
	return d.do(t, q)
}

func (d *direct) ReadPending(t testing.TB, use string, r conformance.Read) conformance.Answer {
	q, err := d.request(r)
	if err != nil {
		return conformance.Answer{Err: err}
	}
	q.Pending, q.ToolUse = true, use
	return d.do(t, q)
}

func (d *direct) Commit(_ testing.TB, use, text string) {
	d.p.shown.Commit(d.id, []wire.CommitCall{{ToolUse: use, Text: text}})
}

func (d *direct) Alive(_ testing.TB, uses []string, readable bool) {
	d.p.shown.TranscriptCheck(d.id.Session, uses, readable)
}

func (d *direct) Event(_ testing.TB, name string) {
	d.p.shown.Event(readers.Event{Reader: d.id, Name: name})
}

func (d *direct) Agent(_ testing.TB, id string) conformance.Reader {
	return &direct{p: d.p, known: true, id: store.Reader{Session: d.id.Session, Agent: id}}
}

func (d *direct) Edit(t testing.TB, path, old, new string) {
	before := d.p.files[path]
	after := conformance.Replace(string(before), old, new)
	d.p.Write(t, path, after)
	err := d.p.shown.OwnEdit(context.Background(), readers.Edit{
		Reader: d.id, Known: d.known, Path: store.Path(path), Before: sha256.Sum256(before), After: sha256.Sum256([]byte(after)),
		Content: func() ([]byte, error) { return []byte(after), nil }, Old: old, New: new,
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestConformance(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Subject { return newProject(t, nil) })
}
