package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// worktree adds a linked worktree beside the project.
func (p *project) worktree(name string) *project {
	p.t.Helper()
	w := *p
	w.dir = filepath.Join(p.base, name)
	p.sh("git worktree add -q -b " + name + " " + w.dir)
	p.t.Cleanup(w.unmount)
	return &w
}

func (p *project) unmount() {
	if mounted(p.dir) {
		if out, err := p.try("umount", p.dir); err != nil {
			p.t.Errorf("umount: %v\n%s", err, out)
			detach(p.dir)
		}
	}
}

// scanned mounts and waits for the first scan.
func (p *project) scanned() {
	p.t.Helper()
	p.mount()
	eventually(p.t, 60*time.Second, "the first scan is done", func() bool {
		text, _ := os.ReadFile(filepath.Join(p.state(), "daemon.log")) // perhaps not there yet
		return strings.Contains(string(text), "msg=baseline ")
	})
}

func (p *project) state() string {
	all, _ := filepath.Glob(filepath.Join(p.base, "state/cachebro", filepath.Base(p.dir)+"-*"))
	if len(all) != 1 {
		p.t.Fatalf("state directories of %s: %q", p.dir, all)
	}
	return all[0]
}

// packs returns the pack files of the project's store, with the number of names of each.
func (p *project) packs() map[uint64]uint64 {
	links := map[uint64]uint64{}
	files, _ := filepath.Glob(p.state() + "/store/packs/*")
	for _, f := range files {
		var st syscall.Stat_t
		if err := syscall.Lstat(f, &st); err != nil {
			p.t.Fatal(err)
		}
		links[st.Ino] = uint64(st.Nlink)
	}
	return links
}

// The store of a second worktree shares the first one's pack files while both are mounted. Undo
// and fsck work there after the first worktree's daemon was killed and its history removed, and a
// purge says where else the content is.
func TestWorktreesShare(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	line := func() string { return fmt.Sprintf("%016x%016x\n", rng.Uint64(), rng.Uint64()) }
	files := map[string]string{"secret.txt": strings.Repeat(line(), 3)}
	for i := range 120 {
		text := ""
		for range 60 {
			text += line()
		}
		files[fmt.Sprintf("dir%d/f%d.txt", i%7, i)] = text
	}
	p := newProject(t, files)
	p.sh("git init -q && git add -A && git -c user.name=t -c user.email=t@t commit -q -m one")
	p.scanned()
	p.cb("store", "prune", "--dir", p.dir) // packs now; this otherwise waits for a quiet moment
	if n := len(p.packs()); n != 1 {
		t.Fatalf("%d pack files", n)
	}
	w := p.worktree("feature")
	w.scanned()
	for _, links := range w.packs() {
		if links != 2 {
			t.Fatalf("the worktree's pack files have %v names", w.packs())
		}
	}
	var du struct {
		Facts struct{ Disk, Shared, Contents, Log, Slack int64 }
	}
	if err := json.Unmarshal([]byte(w.cb("store", "du", "--json", w.dir)), &du); err != nil {
		t.Fatal(err)
	}
	if f := du.Facts; f.Shared < 100_000 || f.Disk < f.Shared {
		t.Fatalf("du: %+v", f)
	}
	var all struct {
		Bytes, Shared int64
		Projects      []struct{ Bytes, Shared int64 }
	}
	if err := json.Unmarshal([]byte(w.cb("store", "du", "--all", "--json")), &all); err != nil {
		t.Fatal(err)
	}
	if len(all.Projects) != 2 || all.Shared != du.Facts.Shared || all.Bytes != all.Projects[0].Bytes+all.Projects[1].Bytes {
		t.Fatalf("du --all: %+v, shared %d", all, du.Facts.Shared)
	}
	if text := w.cb("store", "du", "--all"); !strings.Contains(text, "counted once") {
		t.Fatal(text)
	}

	// If the first worktree purges a content, the other still has it, and the answer says how to
	// purge it there.
	text := p.cb("store", "purge", "--yes", p.path("secret.txt"))
	if want := "cachebro store purge " + w.path("secret.txt"); !strings.Contains(text, want) {
		t.Fatalf("no %q in: %s", want, text)
	}
	w.cb("store", "purge", "--yes", w.path("secret.txt"))
	for ino := range p.packs() {
		if _, ok := w.packs()[ino]; ok {
			t.Fatal("the pack file from before the purge is still there")
		}
	}
	for _, x := range []*project{p, w} {
		x.cb("store", "fsck", "--dir", x.dir)
		if e := x.log("secret.txt", "--baselines"); len(e) != 1 || e[0].NoContent != "purged" {
			t.Fatalf("%+v", e)
		}
	}

	// A third worktree shares pack files with the first two. Their daemons are then killed and
	// their histories removed.
	third := p.worktree("third")
	third.scanned()
	if n := len(third.packs()); n == 0 {
		t.Fatal("the third worktree shares nothing")
	}
	third.sh("CLAUDE_CODE_SESSION_ID=s1 sh -c 'rm -r dir1 dir2; sed -i s/0/1/ dir3/*.txt'")
	for _, x := range []*project{p, w} {
		x.cb("umount", x.dir)
		state := x.state()
		for _, pid := range x.processes() {
			args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if strings.Contains(string(args), "\x00"+x.dir+"\x00") {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		eventually(t, 20*time.Second, "the state directory is removed", func() bool { return os.RemoveAll(state) == nil })
	}
	third.cb("undo", "--session", "s1", "--yes", "--dir", third.dir)
	for name, want := range files {
		if got, err := os.ReadFile(third.path(name)); err != nil || string(got) != want {
			t.Fatalf("%s after undo: %v, %d bytes", name, err, len(got))
		}
	}
	third.cb("store", "fsck", "--dir", third.dir)
	for _, links := range third.packs() {
		if links != 1 {
			t.Fatalf("names of the third's pack files: %v", third.packs())
		}
	}
}
