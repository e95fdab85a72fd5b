package main

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cachebro/cmd/cachebro/cli"
	"cachebro/scripts/testkit/fleettest"
	"cachebro/scripts/testkit/remotetest"
	"cachebro/scripts/testkit/storetest"
	"cachebro/store"
	"cachebro/store/portable"
	"cachebro/store/remote"
)

// told runs a command, checks its exit status, and returns what it prints.
func told(t testing.TB, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	e := cli.NewEnv()
	e.Stdout, e.Stderr, e.Getenv = &out, &errs, func(name string) string {
		if strings.HasPrefix(name, "AWS_") {
			return os.Getenv(name)
		}
		return ""
	}
	if got := run(e, args); got != want {
		t.Fatalf("%q: status %d, not %d: %s%s", args, got, want, &out, &errs)
	}
	return out.String(), errs.String()
}

// sent makes a store with the given changes and sends its history to the bucket.
func sent(t testing.TB, srv *remotetest.Server, prefix, name string, cs ...store.Change) *store.Store {
	t.Helper()
	s := storetest.Fresh(t)
	storetest.Apply(t, s, cs...)
	send(t, s, srv, prefix, name)
	return s
}

func send(t testing.TB, s *store.Store, srv *remotetest.Server, prefix, name string) {
	t.Helper()
	p, err := remote.ParsePlace(srv.Address(prefix), func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	r, err := remote.NewSender(s, portable.PartOptions{Options: portable.Options{Program: "1", Root: "/p"}})
	if err == nil {
		if _, has := r.Place(); !has {
			err = r.Add(t.Context(), p, name, nil)
		}
	}
	for more := true; more && err == nil; {
		more, err = r.Send(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestFleet does what a user does: it indexes the buckets, queries the database and filters.
func TestFleet(t *testing.T) {
	db := fleettest.Postgres(t)
	srv := remotetest.New(t)
	sent(t, srv, "team/app", "alpha", storetest.Closed(store.OpWrite, "src/main.go", "package main\n"), storetest.Closed(store.OpWrite, "src_main", "x"))
	sent(t, srv, "team/app", "beta", storetest.Closed(store.OpWrite, "src/b.go", "package b\n"), storetest.Told(store.OpRename, "src/b.go", "src/\x1b[31mc.go", storetest.FileMode))
	sent(t, srv, "team/lib", "alpha", storetest.Closed(store.OpWrite, "lib.go", "package lib\n"))
	app, lib := srv.Address("team/app"), srv.Address("team/lib")

	out, _ := told(t, 0, "index", db, "--bucket", app, "--bucket", lib)
	if !strings.Contains(out, "2 machines, 5 new versions from 2 segments") || !strings.Contains(out, "1 machine, 1 new version from 1 segment") {
		t.Errorf("index says:\n%s", out)
	}
	if out, _ = told(t, 0, "index", db, "--bucket", app); !strings.Contains(out, "2 machines, 0 new versions from 0 segments") {
		t.Errorf("index says, with nothing new:\n%s", out)
	}
	lines := func(want int, args ...string) string {
		t.Helper()
		out, _ := told(t, 0, append([]string{"log", db}, args...)...)
		if n := strings.Count(out, "\n"); n != want {
			t.Errorf("%q: %d lines, not %d:\n%s", args, n, want, out)
		}
		return out
	}
	if out := lines(6, "--machine", "all"); strings.Contains(out, "\x1b[31m") {
		t.Errorf("what a terminal acts on: %q", out)
	}
	lines(3, "--machine", "alpha")
	lines(3, "--machine", "beta")
	lines(1, "--machine", "alpha", "--project", "lib")
	lines(5, "--project", "app")
	lines(4, "--path", "src/")
	lines(1, "--path", "src/main.go")
	lines(1, "--path", "./src//main.go")
	lines(6, "--path", ".")
	lines(2, "-n", "2")
	lines(0, "--since", "1m")
	lines(6, "--until", "1m")
	if out := lines(1, "--path", "lib.go", "--json"); !strings.Contains(out, `"path":"lib.go"`) || !strings.Contains(out, `"machine":"alpha"`) {
		t.Errorf("JSON: %s", out)
	}
	if out, _ = told(t, 0, "blame", db, "--bucket", app, "src/main.go"); !strings.Contains(out, "alpha") || !strings.HasSuffix(out, "  package main\n") {
		t.Errorf("blame: %s", out)
	}
	file, sum := filepath.Join(t.TempDir(), "audit"), ""
	out, said := told(t, 0, "audit", "export", db, "--project", "app")
	if _, sum, _ = strings.Cut(strings.TrimSpace(said), "5 versions, sum "); len(sum) != 64 {
		t.Fatalf("export says %q", said)
	}
	for _, c := range []struct {
		status int
		text   string
		sum    string
		want   string
	}{
		{0, out, sum, "whole: 5 versions, sum " + sum},
		{0, out, "", "whole: 5 versions"},
		{1, strings.Replace(out, "src/main.go", "src/mair.go", 1), "", "the audit file was changed: line"},
		{1, out, strings.Repeat("0", 64), "the audit file was changed: its sum is " + sum},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, said := told(t, c.status, "audit", "verify", file, "--sum", c.sum); !strings.Contains(out+said, c.want) {
			t.Errorf("verify says %q, not %q", out+said, c.want)
		}
	}
	if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, _ := told(t, 0, "audit", "verify", file); !strings.Contains(said, "only the file itself was checked") {
		t.Errorf("an audit without a bucket: %s", said)
	}
	if said, _ := told(t, 0, "audit", "verify", file, "--bucket", lib, "--bucket", app); !strings.Contains(said, "the same as in the buckets: 5 versions of 2 machines") {
		t.Errorf("an audit with the buckets: %s", said)
	}
	all, _ := told(t, 0, "audit", "export", db)
	if err := os.WriteFile(file, []byte(all), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, _ := told(t, 0, "audit", "verify", file, "--bucket", app); !strings.Contains(said, "not compared: 1 machine of other projects") {
		t.Errorf("an audit with one bucket: %s", said)
	}
	// prune deletes the rows that are a day old or older, and an audit reports that.
	told(t, 2, "prune", db, "--keep", "1h")
	if said, _ := told(t, 0, "prune", db, "--keep", "1d"); !strings.Contains(said, "deleted: 1 day; the database now begins at ") {
		t.Errorf("prune: %s", said)
	}
	lines(0, "--machine", "all")
	kept, _ := told(t, 0, "audit", "export", db)
	if err := os.WriteFile(file, []byte(kept), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, _ := told(t, 0, "audit", "verify", file, "--bucket", lib, "--bucket", app); !strings.Contains(said, "the database reports that everything before ") {
		t.Errorf("an audit after prune: %s", said)
	}
	if _, said := told(t, 1, "log", db, "--machine", "gamma"); !strings.Contains(said, "cachebro-fleet: the database knows no such machine") {
		t.Errorf("of a missing machine: %s", said)
	}
	for _, args := range [][]string{{"index", db}, {"index", "mysql://x", "--bucket", app}, {"log"}, {"log", db, "--since", "soon"}, {"nothing"}, {"blame", db, "x"}, {"audit", "look", db}, {"index", db, "--bucket", app, "--every", "1ms"}} {
		if _, said := told(t, 2, args...); !strings.Contains(said, "hint: cachebro-fleet help") {
			t.Errorf("%q: %s", args, said)
		}
	}
	if out, _ := told(t, 0, "version"); !strings.HasPrefix(out, "cachebro-fleet ") {
		t.Errorf("version: %s", out)
	}
	if out, _ := told(t, 0, "help", "log"); !strings.Contains(out, "cachebro-fleet log postgres://") {
		t.Errorf("help: %s", out)
	}
	// Of a bucket that cannot be read, index must not say that it has no machines.
	srv.Break(func(*http.Request) remotetest.Fault { return remotetest.Forbidden })
	if out, said := told(t, 1, "index", db, "--bucket", app); out != "" || !strings.Contains(said, "the bucket refuses") {
		t.Errorf("index of a bucket that refuses: %s%s", out, said)
	}
}
