package e2e

import (
	"maps"
	"math/rand"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"cachebro/scripts/testkit/remotetest"
)

// Another machine's changes are undone here, and its state is restored here, while one request in
// three fails and the command is killed at any point. In the end either the whole plan or no part
// of it has been carried out, a redo restores every byte, and the log is complete.
func TestElsewhereUnderFaults(t *testing.T) {
	srv := remotetest.New(t)
	files := map[string]string{}
	for _, name := range []string{"a", "b", "c", "d/e", "d/f"} {
		files[name+".txt"] = strings.Repeat(name+"\n", 200)
	}
	p, other := newProject(t, files), newProject(t, files)
	for _, q := range []*project{p, other} {
		q.let(srv)
		q.mount()
		q.scanned()
		q.cb("remote", "add", srv.Address("app"), "--dir", q.dir)
	}
	id := other.machine()
	change := func(q *project, text string) {
		for name, was := range files {
			q.write(name, was+text)
		}
	}
	change(other, "theirs\n")
	other.cb("remote", "send", "--dir", other.dir)
	change(p, "theirs\n")
	start, goal := plainTree(t, p.dir), maps.Clone(files)

	var mu sync.Mutex
	chance := rand.New(rand.NewSource(2))
	broken := func() {
		srv.Break(func(*http.Request) remotetest.Fault {
			mu.Lock()
			defer mu.Unlock()
			if chance.Intn(3) > 0 {
				return remotetest.None
			}
			return remotetest.Fault(chance.Intn(int(remotetest.Faults)))
		})
	}
	for round := range 6 {
		args := [][]string{{"undo", "--machine", id, "--since", "1h"}, {"restore", "--machine", id, "--at", "1"}}[round%2]
		broken()
		for range 3 {
			cmd := p.command(append(args, "--yes", "--dir", p.dir)...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{}) // closed when it has ended
			go func() { _ = cmd.Wait(); close(ended) }()
			select {
			case <-ended:
			case <-time.After(time.Duration(chance.Intn(400)) * time.Millisecond):
				_ = cmd.Process.Kill()
				<-ended
			}
		}
		srv.Break(nil)
		out, _ := p.try("undo", "--machine", id, "--since", "1h", "--yes", "--dir", p.dir) // finishes the plan under way
		if out2, err := p.try("restore", "--machine", id, "--at", "1", "--yes", "--dir", p.dir); err != nil {
			t.Errorf("round %d: %s%s", round, out, out2)
		}
		for name, want := range goal {
			if got := p.read(name); got != want {
				t.Errorf("round %d: %s is not what it was: %d bytes, want %d\n%s", round, name, len(got), len(want), out)
			}
		}
		for range 12 { // reverses each plan that was carried out
			if maps.Equal(plainTree(t, p.dir), start) {
				break
			}
			p.cb("redo", "--yes", "--dir", p.dir)
		}
		if d := differ(start, plainTree(t, p.dir)); d != "" {
			t.Fatalf("round %d: after the redos:\n%s", round, d)
		}
	}
	if out := p.cb("store", "fsck", "--dir", p.dir); strings.Contains(out, "damaged") {
		t.Errorf("fsck: %s", out)
	}
}

// The bucket is set back to an older state. A machine that had read more of a history keeps what it
// read and reports the loss. The machine that wrote the history reports the loss too. It sends
// nothing to the bucket until it begins a new history that does not continue the old one.
func TestOlderBucket(t *testing.T) {
	srv := remotetest.New(t)
	p, other := newProject(t, map[string]string{"a.txt": "one\n"}), newProject(t, map[string]string{"a.txt": "one\n"})
	for _, q := range []*project{p, other} {
		q.let(srv)
		q.mount()
		q.scanned()
		q.cb("remote", "add", srv.Address("app"), "--dir", q.dir)
		q.cb("remote", "send", "--dir", q.dir)
	}
	id := other.machine()
	other.write("a.txt", "two\n")
	other.cb("remote", "send", "--dir", other.dir)
	old := map[string][]byte{}
	for _, key := range srv.Objects() {
		old[key] = srv.Object(key)
	}
	other.write("a.txt", "three\n")
	other.cb("remote", "send", "--dir", other.dir)
	want := p.cb("log", "--versions", "--machine", id, p.dir)
	for _, key := range srv.Objects() {
		srv.Set(key, old[key])
	}
	for key, b := range old {
		srv.Set(key, b)
	}
	out, err := p.try("log", "--versions", "--machine", id, p.dir)
	if err != nil || !strings.Contains(out, strings.TrimSpace(want)) || !strings.Contains(out, "so the older copy is used") {
		t.Errorf("a reader of more than there is: %v\n%s\nwas\n%s", err, out, want)
	}
	other.write("a.txt", "four\n")
	if out, err := other.try("remote", "send", "--dir", other.dir); err == nil {
		t.Errorf("it continues after a missing part: %s", out)
	}
	other.cb("remote", "add", srv.Address("app"), "--dir", other.dir)
	other.cb("remote", "send", "--dir", other.dir)
	if other.machine() == id {
		t.Error("it goes on under the old id")
	}
	var texts []string
	for _, v := range p.log("a.txt", "--machine", other.machine()) {
		texts = append(texts, v.Hash)
	}
	if len(texts) < 4 {
		t.Errorf("%d versions of a.txt came again", len(texts))
	}
	if out := p.cb("remote", "fsck", "--whole", "--dir", p.dir); !strings.Contains(out, "0 problems") {
		t.Errorf("fsck: %s", out)
	}
}
