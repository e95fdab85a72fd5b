package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// bucket starts versitygw, and adds credentials for it to the environment of all runs. The script
// in $CACHEBRO_TOP, the repository, builds it if necessary.
func (b *bench) bucket() (address string, end func(), err error) {
	program, err := exec.Command(filepath.Join(os.Getenv("CACHEBRO_TOP"), "scripts", "versitygw.sh")).Output()
	if err != nil {
		return "", nil, fmt.Errorf("scripts/versitygw.sh in CACHEBRO_TOP: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	at, dir := l.Addr().String(), filepath.Join(b.dir, "s3")
	l.Close()
	if err := os.MkdirAll(filepath.Join(dir, "histories"), 0o700); err != nil {
		return "", nil, err
	}
	const key, secret = "container", "container-secret"
	c := exec.Command(strings.TrimSpace(string(program)), "--quiet", "--port", at, "posix", dir)
	c.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+key, "ROOT_SECRET_KEY="+secret)
	if err := c.Start(); err != nil {
		return "", nil, err
	}
	b.extra = append(b.extra, "AWS_ACCESS_KEY_ID="+key, "AWS_SECRET_ACCESS_KEY="+secret, "AWS_REGION=us-east-1", "NO_PROXY=127.0.0.1")
	for range 1000 {
		conn, err := net.Dial("tcp", at)
		if err == nil {
			conn.Close()
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return "s3://histories/app?endpoint=" + url.QueryEscape("http://"+at) + "&path-style=1&region=us-east-1", func() { _ = c.Process.Kill(); _ = c.Wait(); b.extra = nil }, nil
}

// moved checks that a session can continue after the project and all state of cachebro are lost.
// Only the bucket and the client's own record of the session are left.
func moved(b *bench, c *checks) {
	address, end, err := b.bucket()
	if err != nil {
		c.that(false, "a bucket: %v", err)
		return
	}
	defer end()
	must := func(args ...string) string {
		out, err := b.toolIn(b.dir, args...)
		c.that(err == nil, "cachebro %s: %s", args[0], head(out))
		return out
	}
	must("mount", b.project)
	must("remote", "add", address, "--dir", b.project)

	m := b.conv("firstcontainer")
	m.do(b.read("src/mid.go"))
	known := m.do(b.read("src/mid.go"))
	m.do(shell(`sed -i 's/line 7 of this/line 7, changed in the first container/' src/mid.go && mkdir notes && echo kept > notes/kept.txt`))
	m.say("finished")
	r := b.with(m.ready())
	ended(c, r, "the session in the first container")
	d := m.got(known)
	c.that(isStub(d), "its second Read is a stub: %d bytes", d.size())
	id := r.session()
	before, err := os.ReadFile(filepath.Join(b.project, "src/mid.go"))
	c.that(err == nil && strings.Contains(string(before), "changed in the first container"), "the change is there: %v", err)
	must("remote", "send", "--dir", b.project)
	must("umount", b.project)
	b.endDaemon()
	for _, dir := range []string{"project", "state", "run"} {
		if err := os.RemoveAll(filepath.Join(b.dir, dir)); err != nil {
			c.that(false, "remove the container: %v", err)
			return
		}
	}
	if err := errors.Join(os.Mkdir(filepath.Join(b.dir, "state"), 0o700), os.Mkdir(filepath.Join(b.dir, "run"), 0o700)); err != nil {
		c.that(false, "the new container: %v", err)
		return
	}

	must("remote", "resume", address, b.project)
	after, err := os.ReadFile(filepath.Join(b.project, "src/mid.go"))
	c.that(err == nil && string(after) == string(before), "the file is what it was: %v", err)
	kept, err := os.ReadFile(filepath.Join(b.project, "notes/kept.txt"))
	c.that(err == nil && string(kept) == "kept\n", "so is a new one: %v", err)
	must("mount", b.project)
	n := b.conv("secondcontainer")
	read := n.do(b.read("src/mid.go"))
	stub := n.do(b.read("src/mid.go"))
	n.do(b.edit("src/mid.go", "line 9 of this", "line 9, changed in the second container"))
	again := n.do(shell("cat src/mid.go"))
	n.say("finished")
	r = b.with(n.ready(), "--resume", id)
	ended(c, r, "--resume in the second container")
	c.that(r.session() == id, "it is the same session: %s", r.session())
	d = n.got(read)
	c.that(isFull(d, 299) && strings.Contains(d.text, "changed in the first container"), "its first Read is full: %d bytes: %s", d.size(), head(d.text))
	d = n.got(stub)
	c.that(isStub(d), "its second is a stub: %d bytes: %s", d.size(), head(d.text))
	d = n.got(again)
	c.that(!strings.Contains(d.text, "line 9 of this"), "after its Edit no old line comes: %d bytes: %s", d.size(), head(d.text))

	log := must("log", "--stat", b.project)
	for _, part := range []string{"firstcontainer", "sed -i", "secondcontainer", "Edit"} {
		c.that(strings.Contains(log, part), "the log says %q", part)
	}
	text := func() string {
		t, err := os.ReadFile(filepath.Join(b.project, "src/mid.go"))
		c.that(err == nil, "read: %v", err)
		return string(t)
	}
	must("undo", "--prompt", "last", "--yes", "--dir", b.project)
	c.that(text() == string(before), "undo --prompt last takes back what the second container did")
	must("undo", "--session", id, "--yes", "--dir", b.project)
	_, err = os.Stat(filepath.Join(b.project, "notes"))
	c.that(text() == lines(1001, 300) && os.IsNotExist(err), "undo --session also what the first one did: %v", err)
}
