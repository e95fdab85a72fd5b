package sending

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"cachebro/scripts/testkit/daemontest"
	"cachebro/scripts/testkit/remotetest"
	"cachebro/scripts/testkit/storetest"
	"cachebro/store"
	"cachebro/store/portable"
	"cachebro/store/wire"
)

func service(t *testing.T, p *daemontest.Project) *Service {
	t.Helper()
	s, err := New(Options{Store: p.Store, Ingest: p.Ingest, Parts: portable.Options{Root: p.Root}, Log: p.Log})
	if err != nil {
		t.Fatal(err)
	}
	s.delay = 10 * time.Millisecond
	return s
}

func run(t *testing.T, s *Service) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { s.Run(ctx); close(done) }()
	end = func() { cancel(); <-done }
	t.Cleanup(end)
	return end
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func write(t *testing.T, p *daemontest.Project, n int) {
	t.Helper()
	storetest.Apply(t, p.Store, storetest.Closed(store.OpWrite, "f", fmt.Sprint("text ", n)))
}

// Stored contents are sent in the background. While the bucket cannot be reached, the service
// reports the failure and tries again later. The daemon stays awake meanwhile, but only for a
// limited time.
func TestSentInTheBackground(t *testing.T) {
	srv := remotetest.New(t)
	p := daemontest.New(t)
	s := service(t, p)
	end := run(t, s)
	if s.Configured() || s.Busy() {
		t.Error("there is nowhere to send to")
	}
	write(t, p, 0)
	h := s.Handlers()
	if st, _ := daemontest.Ask[wire.RemoteState](t, h, wire.MRemote, wire.RemoteRequest{Do: "add", URL: srv.Address("app"), Name: "box"}); st.URL == "" || st.Machine == "" {
		t.Fatalf("%+v", st)
	}
	sent := func() bool { st := s.State(); return st.Unsent == 0 && st.Error == "" && st.Segments > 0 }
	until(t, "the first is sent", sent)
	write(t, p, 1)
	s.Changed()
	until(t, "the second is sent", sent)

	srv.Break(func(*http.Request) remotetest.Fault { return remotetest.Error503 })
	write(t, p, 2)
	s.Changed()
	until(t, "the failure is reported", func() bool { return s.State().Error != "" })
	if st := s.State(); st.Unsent == 0 || st.Since.IsZero() || !s.Busy() {
		t.Errorf("a failing link: %+v, busy %v", st, s.Busy())
	}
	s.SendLast(t.Context()) // does not wait for a bucket that cannot be reached
	s.mu.Lock()
	s.state.Since = time.Now().Add(-2 * hopeless)
	s.mu.Unlock()
	if s.Busy() {
		t.Error("a dead link keeps the daemon from ending")
	}
	srv.Break(nil)
	until(t, "it is sent when the link is back", sent)
	end()

	// The next daemon sends what the first one did not send.
	write(t, p, 3)
	next := service(t, p)
	if st := next.State(); st.Unsent == 0 || st.URL == "" {
		t.Errorf("the next daemon: %+v", st)
	}
	next.SendLast(t.Context())
	if st := next.State(); st.Unsent != 0 {
		t.Errorf("at the end: %+v", st)
	}
	if st, _ := daemontest.Ask[wire.RemoteState](t, next.Handlers(), wire.MRemote, wire.RemoteRequest{Do: "rm"}); st.URL != "" || next.Configured() {
		t.Errorf("removed: %+v", st)
	}
}

// Files that git ignores and files that look like secrets are not sent.
func TestStays(t *testing.T) {
	for v, want := range map[store.Version]bool{
		{Path: "main.go"}: false, {Path: "a/.env"}: true, {Path: "id_rsa"}: true, {Path: "x.log", Class: 1}: true, {Path: "out", Class: 2}: true,
	} {
		if staysLocal(v) != want {
			t.Errorf("%s %v: %v", v.Path, v.Class, !want)
		}
	}
}

// If the bucket refuses writes, add fails at once and stores nothing.
func TestAddRefused(t *testing.T) {
	srv := remotetest.New(t)
	p := daemontest.New(t)
	s := service(t, p)
	srv.Break(func(*http.Request) remotetest.Fault { return remotetest.Error503 })
	for _, q := range []wire.RemoteRequest{{Do: "add", URL: srv.Address("app")}, {Do: "add", URL: "http://x"}, {Do: "what"}} {
		if _, _, err := daemontest.Try[wire.RemoteState](t, s.Handlers(), wire.MRemote, q); err == nil {
			t.Errorf("%+v: done", q)
		}
	}
	srv.Break(nil)
	if s.Configured() || service(t, p).Configured() {
		t.Error("it sends all the same")
	}
}
