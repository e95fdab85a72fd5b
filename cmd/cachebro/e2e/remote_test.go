package e2e

import (
	"fmt"
	"math/rand"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"cachebro/scripts/testkit/remotetest"

	"filippo.io/age"
)

// let gives a project's processes the credentials for a server.
func (p *project) let(srv *remotetest.Server) {
	for name, v := range srv.Env() {
		p.env = append(p.env, name+"="+v)
	}
}

// sent returns a project's history without .env, which is never sent.
func (p *project) sent() (all []string) {
	p.t.Helper()
	for _, e := range p.log("", "--baselines") {
		if e.name() != ".env" {
			all = append(all, fmt.Sprintf("#%d %s %s %s %d %o %s", e.Seq, e.Op, e.name(), e.Hash, e.Size, e.Mode, e.Actor.Comm))
		}
	}
	return all
}

// Two machines work on one project. The daemon of one is killed again and again while it sends,
// and then its state is deleted. All that was closed is in the bucket, once, and on a new machine
// the tree and the history are as before.
func TestResume(t *testing.T) {
	files := map[string]string{}
	for i := range 12 {
		files[fmt.Sprintf("d%d/e%d/f%d.txt", i%3, i%2, i)] = fmt.Sprintf("first %d\n", i)
	}
	srv := remotetest.New(t)
	p, other := newProject(t, files), newProject(t, files)
	p.let(srv)
	other.let(srv)
	address := srv.Address("app")
	r := rand.New(rand.NewSource(4))

	other.scanned()
	other.cb("remote", "add", address, "--dir", other.dir)
	other.write("d0/only-here.txt", "the other machine\n")
	other.cb("remote", "send", "--dir", other.dir)

	p.scanned()
	p.cb("remote", "add", address, "--dir", p.dir)
	kills := 0
	var middle string
	var then map[string]string
	for n := range 5 {
		for range 8 {
			p.change(r)
		}
		if n == 2 {
			middle, then = p.newest(), plainTree(t, p.dir)
			delete(then, ".env")
		}
		p.write(".env", "TOP-SECRET\n")
		var asked atomic.Int32
		victim := p.process("daemon")
		srv.Break(func(*http.Request) remotetest.Fault {
			if int(asked.Add(1)) == 1+n {
				_ = syscall.Kill(victim, syscall.SIGKILL)
				kills++
				return remotetest.CutAfter
			}
			return remotetest.None
		})
		_, _ = p.try("remote", "send", "--dir", p.dir)
		srv.Break(nil)
	}
	if kills < 3 {
		t.Errorf("%d daemons were killed while they sent", kills)
	}
	if out := p.cb("remote", "--dir", p.dir); !strings.Contains(out, "s3://"+remotetest.Bucket+"/app") {
		t.Errorf("remote says %q", out)
	}

	// While the link is down, umount says what has not been sent, and does not wait for it.
	srv.Break(func(*http.Request) remotetest.Fault { return remotetest.Error503 })
	p.write("d1/last.txt", "before umount\n")
	out, err := p.try("umount", p.dir)
	if err != nil || !strings.Contains(out, "not yet sent") {
		t.Errorf("umount on a dead link: %v %q", err, out)
	}
	srv.Break(nil)
	p.mount()
	p.write("d1/last.txt", "at umount\n")
	if out, err := p.try("umount", p.dir); err != nil || strings.Contains(out, "not yet sent") {
		t.Errorf("umount: %v %q", err, out)
	}
	if err := os.Remove(p.path(".env")); err != nil { // it is never sent
		t.Fatal(err)
	}
	tree := plainTree(t, p.dir)
	history, machine := p.sent(), p.machine()
	for _, pid := range p.processes() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err := os.RemoveAll(filepath.Join(p.base, "state")); err != nil {
		t.Fatal(err)
	}

	if out := p.cb("remote", "machines", address); strings.Count(out, "\n") != 2 {
		t.Errorf("machines: %q", out)
	}
	fresh := *p
	fresh.dir = filepath.Join(p.base, "fresh")
	t.Cleanup(fresh.unmount)
	fresh.cb("remote", "resume", address, fresh.dir, "--machine", machine) // the other machine may have sent more in the meantime
	if d := differ(tree, plainTree(t, fresh.dir)); d != "" {
		t.Errorf("the tree:\n%s", d)
	}
	if got := fresh.sent(); strings.Join(got, "\n") != strings.Join(history, "\n") {
		t.Errorf("the history:\n%s\nwas\n%s", strings.Join(got, "\n"), strings.Join(history, "\n"))
	}
	fresh.refuse(1, "remote", "resume", address, fresh.dir) // the directory is not empty
	fresh.mount()
	_, _ = fresh.try("restore", fresh.dir, "--at", middle, "--yes") // directories' times may differ
	if d := differ(then, plainTree(t, fresh.dir)); d != "" {
		t.Errorf("the tree of %s, restored from what came back:\n%s", middle, d)
	}
	fresh.cb("remote", "add", address, "--dir", fresh.dir)
	fresh.cb("remote", "send", "--dir", fresh.dir)
	if out := fresh.cb("remote", "machines", address); strings.Count(out, "\n") != 3 {
		t.Errorf("machines: %q", out)
	}
	again := *p
	again.dir = filepath.Join(p.base, "again")
	again.cb("remote", "resume", address, again.dir, "--machine", fresh.machine())
	if d := differ(plainTree(t, fresh.dir), plainTree(t, again.dir)); d != "" {
		t.Errorf("the tree, resumed twice:\n%s", d)
	}
	for _, key := range srv.Objects() {
		if strings.Contains(string(srv.Object(key)), "TOP-SECRET") {
			t.Errorf("%s holds a secret", key)
		}
	}
}

// resume --send used to report that not all files were restored if only the bucket refused to be
// written, and a relative --identity was not relative to --dir.
func TestResumeWithoutTheRightToSend(t *testing.T) {
	srv := remotetest.New(t)
	p := newProject(t, map[string]string{"a.txt": "a\n", "b/c.txt": "c\n"})
	p.let(srv)
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(p.base, "key")
	if err := os.WriteFile(key, []byte(identity.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	p.scanned()
	address := srv.Address("app")
	p.cb("remote", "add", "--recipient", identity.Recipient().String(), address, "--dir", p.dir)
	p.cb("remote", "send", "--dir", p.dir)
	if out := p.cb("remote", "machines", "--identity", "../key", "--dir", p.dir); !strings.Contains(out, p.dir) {
		t.Errorf("machines: %s", out)
	}

	srv.Break(func(r *http.Request) remotetest.Fault {
		if r.Method == http.MethodPut {
			return remotetest.Forbidden
		}
		return remotetest.None
	})
	fresh := *p
	fresh.dir = filepath.Join(p.base, "fresh")
	t.Cleanup(fresh.unmount)
	out := fresh.refuse(1, "remote", "resume", "--send", "--identity", key, address, fresh.dir)
	for _, want := range []string{"this machine does not send the history: ", "hint: cachebro remote add "} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q: %s", want, out)
		}
	}
	if d := differ(plainTree(t, p.dir), plainTree(t, fresh.dir)); d != "" {
		t.Errorf("the tree:\n%s", d)
	}
	srv.Break(nil)
	fresh.cb("remote", "add", address, "--dir", fresh.dir)
	fresh.write("a.txt", "more\n")
	if out := fresh.cb("remote", "send", "--dir", fresh.dir); !strings.Contains(out, "not yet:  0 versions") {
		t.Errorf("send: %s", out)
	}
}
