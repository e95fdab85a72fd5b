// Package daemontest sets up a project for tests of single services. The project has a store, a
// spool that is ingested, and a survey of its files, but no socket and no index.
package daemontest

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/cmd/cachebro/daemon/gitstate"
	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/cmd/cachebro/daemon/source"
	"cachebro/cmd/cachebro/daemon/survey"
	"cachebro/scripts/testkit/storetest"
	"cachebro/store"
	"cachebro/store/leaf/ignore"
	"cachebro/store/leaf/spool"
	"cachebro/store/onwire"
	"cachebro/store/wire"
)

// Project has the parts of a project that services need. Nothing is mounted.
type Project struct {
	t     testing.TB
	Root  string
	State string

	Log         *slog.Logger
	Store       *store.Store
	Source      *source.Source
	Ingest      *ingest.Ingester
	Attribution *attribution.Attribution
	Survey      *survey.Survey
	Git         *gitstate.Service
	Paths       onwire.Paths
}

// New returns an empty project that exists until the test ends.
func New(t testing.TB) *Project {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	p := &Project{t: t, Root: filepath.Join(base, "project"), State: filepath.Join(base, "state"), Log: slog.New(slog.DiscardHandler)}
	must(t, os.Mkdir(p.Root, 0o755))
	must(t, os.Mkdir(p.State, 0o700))
	p.Store = storetest.Open(t, filepath.Join(p.State, "store"), storetest.Options())
	p.Source = source.New(p.Root, ignore.Options{})
	p.Attribution, err = attribution.Open(p.Store, p.Log)
	must(t, err)
	p.Git = gitstate.New(wire.GitDir(p.State), p.Store, p.Source, p.Log)
	p.Ingest, err = ingest.Open(wire.SpoolDir(p.State), p.Store, p.Source, p.Attribution, p.Log, ingest.Followers{
		Hold: func() func() { return func() {} }, Changed: func() {}, Wrote: func([]store.Version) {}, Reads: func(*spool.Record) {}, Git: p.Git,
		Bypassed: func(ctx context.Context, told []ingest.Bypass, apply func([]store.Change) bool) {
			p.Survey.RecordBypassed(ctx, told, apply)
		},
	})
	must(t, err)
	p.Survey, err = survey.Open(survey.Options{
		Root: p.Root, State: p.State, Store: p.Store, Source: p.Source, Ingest: p.Ingest, Log: p.Log, Changed: func() {}, Sends: func() bool { return false },
	})
	must(t, err)
	p.Paths = onwire.Paths{Root: p.Root, Mountpoint: p.Survey.Mountpoint}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { p.Ingest.Run(ctx) })
	wg.Go(func() { p.Survey.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		p.Survey.Close()
		if err := p.Ingest.Close(); err != nil {
			t.Error(err)
		}
		p.Source.Drop()
	})
	return p
}

// Write writes a file and creates the directories above it.
func (p *Project) Write(name, text string) {
	p.t.Helper()
	name = filepath.Join(p.Root, name)
	must(p.t, os.MkdirAll(filepath.Dir(name), 0o755))
	must(p.t, os.WriteFile(name, []byte(text), 0o644))
}

// Remove removes a file or a directory with everything in it.
func (p *Project) Remove(name string) {
	p.t.Helper()
	must(p.t, os.RemoveAll(filepath.Join(p.Root, name)))
}

// LookAtAll surveys all files, so that the log has the content of each.
func (p *Project) LookAtAll() {
	p.t.Helper()
	missing, err := p.Survey.LookAtAll(p.t.Context())
	if err != nil || missing != "" {
		p.t.Fatal(missing, err)
	}
}

// Ask calls a handler as a client would and fails the test on an error.
func Ask[A any](t testing.TB, handlers map[string]wire.Handler, method string, q any) (A, []byte) {
	t.Helper()
	a, body, err := Try[A](t, handlers, method, q)
	if err != nil {
		t.Fatalf("%s: %v (hint: %s)", method, err, wire.Hint(err))
	}
	return a, body
}

// Try is like Ask and returns the handler's error.
func Try[A any](t testing.TB, handlers map[string]wire.Handler, method string, q any) (a A, body []byte, err error) {
	t.Helper()
	return TryBody[A](t, handlers, method, q, nil)
}

// TryBody is like Try and sends a body.
func TryBody[A any](t testing.TB, handlers map[string]wire.Handler, method string, q any, with []byte) (a A, body []byte, err error) {
	t.Helper()
	h := handlers[method]
	if h == nil {
		t.Fatalf("nobody answers %q", method)
	}
	params, err := json.Marshal(q)
	must(t, err)
	out, body, err := h(t.Context(), &wire.Request{Method: method, Params: params, Body: with, Peer: wire.Peer{PID: os.Getpid()}})
	if err != nil {
		return a, nil, err
	}
	raw, err := json.Marshal(out)
	must(t, err)
	must(t, json.Unmarshal(raw, &a))
	return a, body, nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
