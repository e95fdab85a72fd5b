package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// besideDelay is how long names and modes that were changed by another way may
// be shown as they were, and a little.
const besideDelay = 1500 * time.Millisecond

// bind shows the source once more, as a container's volume would: what is bound
// is the directory above, without the overlay in it.
func (p *project) bind() (dir string) {
	p.t.Helper()
	at := filepath.Join(p.base, "beside")
	if err := os.Mkdir(at, 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := syscall.Mount(p.base, at, "", syscall.MS_BIND, ""); err != nil {
		p.t.Skipf("bind mount: %v", err)
	}
	p.t.Cleanup(func() { detach(at) })
	return filepath.Join(at, "project")
}

// namespace is the source as a process sees it that has had a mount namespace of
// its own since before the overlay.
func (p *project) namespace() (dir string) {
	p.t.Helper()
	cmd := exec.Command("cat") // until its input ends
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		p.t.Skipf("a mount namespace: %v", err)
	}
	p.t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	return fmt.Sprintf("/proc/%d/root%s", cmd.Process.Pid, p.dir)
}

func (p *project) outside() bool {
	var st struct {
		Outside bool `json:"outside"`
	}
	if err := json.Unmarshal([]byte(p.cb("status", "--json", p.dir)), &st); err != nil {
		p.t.Fatal(err)
	}
	return st.Outside
}

// TestSecondWayIn: two mounts of one source, one of them ours. Who stood outside
// was told by comparing paths, and a bind mount was no one: its new files were
// absent for as long as an hour, its chmod was not seen, its appends were
// overwritten. A model of what is where is not needed, because the source is one:
// both ways must show the same, bytes at once, names and modes after a second.
// CACHEBRO_BESIDE=10m makes it longer.
func TestSecondWayIn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can bind a directory")
	}
	length := 3 * time.Second
	if d, err := time.ParseDuration(os.Getenv("CACHEBRO_BESIDE")); err == nil {
		length = d
	}
	files := map[string]string{"s": "x\n", "t": "y\n", "d/s": "z\n"}
	t.Run("bind mount", func(t *testing.T) {
		p := newProject(t, files)
		p.mount()
		if _, err := os.Stat(filepath.Join(p.dir, "later")); err == nil {
			t.Fatal("there already")
		}
		side := p.bind()
		besideModel(p, side, length)
		if err := syscall.Unmount(filepath.Dir(side), 0); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("another namespace", func(t *testing.T) {
		p := newProject(t, files)
		side := p.namespace()
		p.mount()
		besideModel(p, side, length)
	})
}

// besideModel changes the project's files in both ways for so long.
func besideModel(p *project, beside string, length time.Duration) {
	t := p.t
	side := [2]string{p.dir, beside}
	eventually(t, time.Minute, "the other mount is noticed", p.outside)

	rng := rand.New(rand.NewSource(time.Now().UnixNano()))
	names := []string{"a", "b", "c", "d/a", "d/b", "e/a"}
	steady := []string{"s", "t", "d/s"} // keep their names
	if err := os.Mkdir(filepath.Join(side[1], "e"), 0o755); err != nil {
		t.Fatal(err)
	}
	moved := map[string]time.Time{} // names that came or went by the other way
	last := map[string]string{}
	held := [2]map[string]*os.File{{}, {}}
	for i := range held {
		for _, name := range steady {
			h, err := os.OpenFile(filepath.Join(side[i], name), os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close()
			held[i][name] = h
		}
	}
	time.Sleep(besideDelay)
	ops, compared := 0, 0
	for end, check := time.Now().Add(length), time.Now().Add(length/100+time.Second); time.Now().Before(end); ops++ {
		i := rng.Intn(2)
		name, other := names[rng.Intn(len(names))], names[rng.Intn(len(names))]
		kind, fixed := rng.Intn(8), rng.Intn(2) == 0
		if fixed {
			name, kind = steady[rng.Intn(len(steady))], []int{0, 1, 2, 3, 6, 8, 8}[rng.Intn(7)]
		}
		path := filepath.Join(side[i], name)
		text := []byte(fmt.Sprintf("%d by %d: %*d\n", ops, i, 1+rng.Intn(6000), 7))
		what := ""
		_, err := os.Lstat(filepath.Join(side[1], name))
		renames := err != nil // it may come
		switch kind {
		case 0, 1:
			what, err = "append", besideWrite(path, os.O_APPEND, -1, text)
		case 2:
			what, err = "write in place", besideWrite(path, 0, int64(rng.Intn(5000)), text)
		case 3:
			what, err = "truncate", os.Truncate(path, int64(rng.Intn(9000)))
		case 4:
			what, renames = "save", true
			if err = os.WriteFile(path+".tmp", text, 0o644); err == nil {
				err = os.Rename(path+".tmp", path)
			}
		case 5:
			what, renames = "rename to "+other, true
			if err = os.Rename(path, filepath.Join(side[i], other)); err == nil {
				moved[other] = time.Now()
				last[other] = fmt.Sprintf("%d: %s by %d", ops, what, i)
			}
		case 6:
			what, err = "chmod", os.Chmod(path, []fs.FileMode{0o600, 0o644, 0o755}[rng.Intn(3)])
		case 7:
			what, renames = "remove", true
			if rng.Intn(3) == 0 {
				err = os.Remove(path)
			}
		case 8:
			what = "write by a handle"
			_, err = held[i][name].WriteAt(text, int64(rng.Intn(5000)))
		}
		if renames {
			moved[name] = time.Now() // the other way may still believe it to be absent, or another file
		}
		last[name] = fmt.Sprintf("%d: %s by %d", ops, what, i)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%s %s by %d: %v", what, name, i, err)
		}
		if time.Since(moved[name]) > besideDelay {
			on, err1 := os.ReadFile(filepath.Join(side[0], name))
			under, err2 := os.ReadFile(filepath.Join(side[1], name))
			if compared++; string(on) != string(under) || (err1 == nil) != (err2 == nil) {
				t.Fatalf("%s after %s: %d bytes through the mount (%v), %d on the source (%v)", name, last[name], len(on), err1, len(under), err2)
			}
		}
		if time.Now().After(check) {
			check = time.Now().Add(length/100 + time.Second)
			time.Sleep(besideDelay)
			if on, under := besideTree(t, side[0]), besideTree(t, side[1]); !slices.Equal(on, under) {
				t.Fatalf("after %d operations\nmount:  %q\nsource: %q", ops, on, under)
			}
		}
	}
	t.Logf("%d operations, %d times a content was compared at once", ops, compared)
}

// A restore takes back what was removed beside the mount as well: "nothing to do" is said
// of the files, not of the log.
func TestRestoreAfterRemovalBeside(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a mount namespace")
	}
	p := newProject(t, map[string]string{"a": "1\n", "b": "2\n", "d/c": "3\n"})
	side := p.namespace()
	p.mount()
	p.scanned()
	before, at := treeOf(t, p.dir), p.newest()
	for _, name := range []string{"a", "d/c"} {
		if err := os.Remove(filepath.Join(side, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := besideWrite(filepath.Join(side, "b"), os.O_TRUNC, -1, []byte("other\n")); err != nil {
		t.Fatal(err)
	}
	p.cb("restore", "--at", at, "--yes", "--dir", p.dir)
	same := func() bool { return differ(before, treeOf(t, p.dir)) == "" }
	eventually(t, 30*time.Second, "the tree as it was", same)
	if err := os.Remove(filepath.Join(side, "a")); err != nil {
		t.Fatal(err)
	}
	p.cb("revert", "--yes", filepath.Join(p.dir, "a"))
	eventually(t, 30*time.Second, "the tree as it was, again", same)
}

func besideWrite(path string, flags int, off int64, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|flags, 0o644)
	if err != nil {
		return err
	}
	if off < 0 {
		_, err = f.Write(text)
	} else {
		_, err = f.WriteAt(text, off)
	}
	return errors.Join(err, f.Close())
}

// besideTree is everything in a directory: names, modes, sizes, content.
func besideTree(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		all = append(all, fmt.Sprintf("%s %v %d %x", rel, info.Mode(), info.Size(), sha256.Sum256(b)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Who stands in the project when it is mounted is named, but not what npx has between the
// shell and us: that waits for us and ends.
func TestMountNamesWhoStandsThere(t *testing.T) {
	p := newProject(t, map[string]string{"a": "1\n"})
	npx := filepath.Join(p.base, "npx")
	if err := os.WriteFile(npx, []byte("#!/bin/sh\nsh -c '\"$@\"; :' sh \"$@\"\n:\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `"$@"; :`, "sh", npx, binary, "mount", p.dir)
	cmd.Dir, cmd.Env = p.dir, p.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := strings.Count(string(out), "(pid "); n != 1 || !strings.Contains(string(out), fmt.Sprintf("sh (pid %d, working directory", cmd.Process.Pid)) {
		t.Errorf("%d are named:\n%s", n, out)
	}
}

// TestUnmountedHereAlone: a mount namespace that was made meanwhile, a container's for
// one, keeps a copy of the mount when it has gone from here. Its mountd was still taken
// for one that sees all changes, and a question told of none that were made here since.
func TestUnmountedHereAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a mount namespace")
	}
	p := newProject(t, map[string]string{"changed.txt": "one\n", "removed.txt": "two\n", "inside.txt": "three\n"})
	p.mount()
	copied := p.namespace()
	out, _ := p.try("umount", p.dir) // names who has the copy
	if mounted(p.dir) {
		t.Fatalf("umount: %s", out)
	}
	past := func(what string) {
		t.Helper()
		told := p.cb("what-changed", p.dir)
		for _, name := range []string{"changed.txt", "removed.txt", "made.txt"} {
			if !strings.Contains(told, name) {
				t.Errorf("%s: nothing is told of %s:\n%s", what, name, told)
			}
		}
	}
	p.write("changed.txt", "other\n")
	p.write("made.txt", "new\n")
	if err := os.Remove(p.path("removed.txt")); err != nil {
		t.Fatal(err)
	}
	past("right after umount")
	p.wantContents("changed.txt", "one\n", "other\n")
	if strings.Contains(p.cb("status", "--json", p.dir), `"mounted": true`) {
		t.Error("status says that the project is mounted")
	}

	// What the other namespace does is told of as before, and shows here.
	if err := os.WriteFile(filepath.Join(copied, "inside.txt"), []byte("four\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "the version of the copy", func() bool { return len(p.log("inside.txt")) == 2 })
	// And what is done here shows there.
	p.write("changed.txt", "again\n")
	eventually(t, 5*time.Second, "the change in the copy", func() bool {
		b, err := os.ReadFile(filepath.Join(copied, "changed.txt"))
		return err == nil && string(b) == "again\n"
	})

	// A daemon that is started now hears of it by mountd's introduction.
	if err := syscall.Kill(p.process("daemon"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.write("removed.txt", "back\n")
	eventually(t, 10*time.Second, "the change under another daemon", func() bool {
		all := p.log("removed.txt")
		return len(all) == 3
	})
}
