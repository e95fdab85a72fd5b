package fusefs

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cachebro/store/leaf/event"
)

// recorder is an Observer that records each call as one short line. The line contains the content
// that can be read at that moment, which capture would have saved.
type recorder struct {
	mu     sync.Mutex // guards calls, closes, events, before
	calls  []string
	closes []Closed
	events []Event
	before func(Change) // called inside Before, if set
	closed func(Closed) // called inside Closed, if set
	quiet  bool         // reads are not recorded
}

var opWords = map[event.Op]string{
	event.OpOpen: "open", event.OpCreate: "create", event.OpWrite: "write", event.OpTruncate: "truncate", event.OpRename: "rename",
	event.OpExchange: "exchange", event.OpLink: "link", event.OpUnlink: "unlink", event.OpSymlink: "symlink", event.OpMkdir: "mkdir",
	event.OpRmdir: "rmdir", event.OpChmod: "chmod", event.OpMknod: "mknod",
}

func (r *recorder) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, fmt.Sprintf(format, args...))
}

// content returns the content of a file, read through File.Open.
func content(f File) string {
	fd, err := f.Open()
	if err != nil {
		return "!" + err.Error()
	}
	h := os.NewFile(uintptr(fd), f.Path())
	defer h.Close()
	b, err := io.ReadAll(io.NewSectionReader(h, 0, 1<<20))
	if err != nil {
		return "!" + err.Error()
	}
	if len(b) > 40 {
		return fmt.Sprintf("%d bytes", len(b))
	}
	return string(b)
}

// pathOf returns the path of a file. For a file without a name it returns the last name in
// parentheses.
func pathOf(f File, last string) string {
	if p := f.Path(); p != "" {
		return p
	}
	return "(" + last + ")"
}

func (r *recorder) Before(c Change) {
	r.mu.Lock()
	before := r.before
	r.mu.Unlock()
	if before != nil {
		before(c)
	}
	r.add("before %s %s %q", opWords[c.Op], pathOf(c.File, c.File.(*inode).LastPath()), content(c.File))
}

func (r *recorder) Closed(c Closed) {
	r.mu.Lock()
	closed := r.closed
	r.mu.Unlock()
	if closed != nil {
		closed(c)
	}
	idle := ""
	if c.Idle {
		idle = " idle"
	}
	r.add("closed %s %s %q%s", opWords[c.Op], pathOf(c.File, c.LastPath), content(c.File), idle)
	r.mu.Lock()
	r.closes = append(r.closes, c)
	r.mu.Unlock()
}

func (r *recorder) Done(e Event) {
	line := "done " + opWords[e.Op] + " " + e.Path
	if e.Path2 != "" {
		line += " " + e.Path2
	}
	if e.Target != "" {
		line += " -> " + e.Target
	}
	if e.Replaced != nil {
		line += " (replaced)"
	}
	r.add("%s", line)
	r.mu.Lock()
	r.events = append(r.events, e)
	r.mu.Unlock()
}

func (r *recorder) Opened(f File, _ Caller) {
	if !r.quiet {
		r.add("opened %s", f.Path())
	}
}

func (r *recorder) Synced(f File, _ <-chan struct{}) { r.add("synced %s", f.Path()) }

func (r *recorder) Outside(f File, was, now event.Stat) {
	r.add("outside %s %d -> %d", f.Path(), was.Size, now.Size)
}

// take returns the recorded lines and forgets them.
func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.calls
	r.calls, r.closes, r.events = nil, nil, nil
	return c
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.calls)
}

// want checks that the recorded lines since the last call are equal to lines. Handles are released
// in the background, so want first waits until there are as many recorded lines.
func (f *fixture) want(t *testing.T, lines ...string) {
	t.Helper()
	eventuallyOr(func() bool { return f.rec.count() >= len(lines) && f.srv.Stats().Dirty == 0 })
	if got := f.rec.take(); !slices.Equal(got, lines) {
		t.Errorf("recorded:\n\t%s\nwant:\n\t%s", strings.Join(got, "\n\t"), strings.Join(lines, "\n\t"))
	}
}

// told waits until no file is dirty and the Observer has been informed. An inode becomes clean
// shortly before its close is reported. The report is made while the inode's order is locked.
func (f *fixture) told() {
	eventuallyOr(func() bool { return f.srv.Stats().Dirty == 0 })
	for i := range f.srv.fs.table.byID {
		part := &f.srv.fs.table.byID[i]
		part.RLock()
		var all []*inode
		for _, n := range part.m {
			all = append(all, n)
		}
		part.RUnlock()
		for _, n := range all {
			func() { n.order.Lock(); defer n.order.Unlock() }() // whoever held the lock has finished
		}
	}
}

// helperEnv makes the test binary act as a program that uses the mount.
const helperEnv = "FUSEFS_TEST_HELPER"

// beHelper runs one of the helpers instead of the tests if the environment asks for it.
func beHelper() {
	name := os.Getenv(helperEnv)
	if name == "" {
		return
	}
	if err := helpers[name](os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func eventuallyOr(ok func() bool) {
	for end := time.Now().Add(20 * time.Second); !ok() && time.Now().Before(end); {
		time.Sleep(2 * time.Millisecond)
	}
}

// helpers are the programs that use the mount, by name.
var helpers = map[string]func(args []string) error{}
