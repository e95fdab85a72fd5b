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
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// besideDelay is somewhat longer than the time for which the mount may show old names and modes
// after a change that bypassed it.
const besideDelay = 1500 * time.Millisecond

// bind mounts the source a second time, as a container's volume would: it binds the parent
// directory, without the overlay that is mounted in it.
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

// namespace returns a path to the source through a process whose mount namespace was made before
// the overlay.
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

// outside reports whether cachebro has noticed that the mount can be bypassed: somebody does so, or
// cachebro watches for it.
func (p *project) outside() bool {
	used, watched := p.besides()
	return used || watched
}

// besides reports whether somebody bypasses the mount, and whether cachebro watches for that.
func (p *project) besides() (used, watched bool) {
	p.t.Helper()
	var st struct {
		Outside bool `json:"outside"`
		Watched bool `json:"watched"`
	}
	if err := json.Unmarshal([]byte(p.cb("status", "--json", "--dir", p.dir)), &st); err != nil {
		p.t.Fatal(err)
	}
	return st.Outside, st.Watched
}

// TestSecondWayIn: one source is mounted twice, once by cachebro. Processes that bypass cachebro's
// mount used to be found by comparing paths, which missed bind mounts. Their new files were then
// absent for up to an hour, a chmod was not seen, and appends were overwritten. No model of the
// files is needed, because both sides show the same source: their bytes must agree at once, and
// their names and modes after a second. CACHEBRO_BESIDE=10m makes the test longer.
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

// besideModel changes the project's files on both sides for some time.
func besideModel(p *project, beside string, length time.Duration) {
	t := p.t
	side := [2]string{p.dir, beside}
	eventually(t, time.Minute, "the other mount is noticed", p.outside)

	rng := rand.New(rand.NewSource(time.Now().UnixNano()))
	names := []string{"a", "b", "c", "d/a", "d/b", "e/a"}
	steady := []string{"s", "t", "d/s"} // files that keep their names
	if err := os.Mkdir(filepath.Join(side[1], "e"), 0o755); err != nil {
		t.Fatal(err)
	}
	moved := map[string]time.Time{} // names that the other side made or removed
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
		renames := err != nil // the other side may create the name in the meantime
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
			moved[name] = time.Now() // the other side may still show nothing, or another file, at this name
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

// A restore also brings back files that a process removed without using the mount, even if the log
// does not know of the removal yet.
func TestRestoreAfterRemovalBeside(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a mount namespace")
	}
	p := newProject(t, map[string]string{"a": "1\n", "b": "2\n", "d/c": "3\n"})
	side := p.namespace()
	p.mount()
	p.scanned()
	before, at := asLogged(t, p.dir), p.newest()
	for _, name := range []string{"a", "d/c"} {
		if err := os.Remove(filepath.Join(side, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := besideWrite(filepath.Join(side, "b"), os.O_TRUNC, -1, []byte("other\n")); err != nil {
		t.Fatal(err)
	}
	p.cb("restore", "--at", at, "--yes", "--dir", p.dir)
	same := func() bool { return differ(before, asLogged(t, p.dir)) == "" }
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

// besideTree returns everything in a directory: names, modes, sizes, contents.
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

// mount names the processes whose working directory is in the project. It omits those that npx runs
// between the shell and cachebro, because they only wait for cachebro to end.
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

// TestUnmountedHereAlone: a mount namespace that was made while the project was mounted, for
// example by a container, keeps a copy of the mount after an umount here. The mountd that serves the
// copy used to count as one that sees all changes, so answers lacked changes made here after umount.
func TestUnmountedHereAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a mount namespace")
	}
	p := newProject(t, map[string]string{"changed.txt": "one\n", "removed.txt": "two\n", "inside.txt": "three\n"})
	p.mount()
	copied := p.namespace()
	out, _ := p.try("umount", p.dir) // names the processes that have the copy
	if mounted(p.dir) {
		t.Fatalf("umount: %s", out)
	}
	past := func(what string) {
		t.Helper()
		told := p.cb("diff", "--stat", "--since", "10m", p.dir)
		for _, name := range []string{"changed.txt", "removed.txt", "made.txt"} {
			if !strings.Contains(told, name) {
				t.Errorf("%s: nothing is reported about %s:\n%s", what, name, told)
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
	if strings.Contains(p.cb("status", "--json", "--dir", p.dir), `"mounted": true`) {
		t.Error("status says that the project is mounted")
	}

	// Changes in the other namespace are recorded as before, and visible here.
	if err := os.WriteFile(filepath.Join(copied, "inside.txt"), []byte("four\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "the version of the copy", func() bool { return len(p.log("inside.txt")) == 2 })
	// Changes here are visible in the other namespace.
	p.write("changed.txt", "again\n")
	eventually(t, 5*time.Second, "the change in the copy", func() bool {
		b, err := os.ReadFile(filepath.Join(copied, "changed.txt"))
		return err == nil && string(b) == "again\n"
	})

	// A daemon that is started now learns of the unmount when mountd attaches.
	if err := syscall.Kill(p.process("daemon"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.write("removed.txt", "back\n")
	eventually(t, 10*time.Second, "the change under another daemon", func() bool {
		all := p.log("removed.txt")
		return len(all) == 3
	})
}

// TestWayThatNobodyUses: a single process in another mount namespace, such as a service or a
// sandbox, used to switch the kernel's caches off for as long as it ran. Now the caches stay on
// until a process there opens a file of the project.
func TestWayThatNobodyUses(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a mount namespace here")
	}
	p := newProject(t, map[string]string{"a": "one\n", "d/b": "two\n"})
	side := p.namespace()
	p.mount()
	eventually(t, time.Minute, "the way is watched, and nobody uses it", func() bool {
		outside, watched := p.besides()
		return !outside && watched
	})
	if out := p.cb("status", "--dir", p.dir); !strings.Contains(out, "no process has a file of the project open there") {
		t.Errorf("status: %s", out)
	}
	if _, err := os.Stat(p.path("a")); err != nil { // the kernel may cache this for an hour
		t.Fatal(err)
	}
	h, err := os.Open(filepath.Join(side, "d/b")) // opened, but not changed
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "it is noticed that somebody opened a file", func() bool { outside, _ := p.besides(); return outside })
	h.Close()
	for name, text := range map[string]string{"a": "longer\n", "d/new": "new\n"} {
		if err := os.WriteFile(filepath.Join(side, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		eventually(t, time.Minute, name+" is shown as it is", func() bool {
			fi, err := os.Stat(p.path(name))
			b, err2 := os.ReadFile(p.path(name))
			return err == nil && err2 == nil && fi.Size() == int64(len(text)) && string(b) == text
		})
	}
	eventually(t, time.Minute, "nobody uses the other namespace any more", func() bool { outside, _ := p.besides(); return !outside })
	// Changes are seen although everything is cached.
	for i := range 20 {
		text := strings.Repeat("x", i)
		if err := os.WriteFile(filepath.Join(side, "a"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		eventually(t, 10*time.Second, "a change is shown", func() bool {
			fi, err := os.Stat(p.path("a"))
			return err == nil && fi.Size() == int64(i)
		})
	}
}

// TestEventsLost: if more happens on the file system than the kernel's queue holds, all files are
// scanned. The kernel's caches used to stay off after that until somebody bypassed the mount.
func TestEventsLost(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root watches the whole file system")
	}
	b, err := os.ReadFile("/proc/sys/fs/fanotify/max_queued_events")
	if err != nil {
		t.Fatal(err)
	}
	most, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	p := newProject(t, map[string]string{"a": "one\n"})
	p.namespace()
	p.mount()
	quiet := func() bool { used, watched := p.besides(); return watched && !used }
	eventually(t, time.Minute, "the way is watched, and nobody uses it", quiet)
	elsewhere := filepath.Join(p.base, "elsewhere")
	if err := os.Mkdir(elsewhere, 0o755); err != nil {
		t.Fatal(err)
	}
	mountd := p.process("mountd")
	if err := syscall.Kill(mountd, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for i := range most + 1000 {
		if err := os.WriteFile(filepath.Join(elsewhere, strconv.Itoa(i)), nil, 0o644); err != nil {
			t.Error(err)
			break
		}
	}
	if err := syscall.Kill(mountd, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "everything counts as changed", func() bool { used, _ := p.besides(); return used })
	eventually(t, time.Minute, "the caches are back", quiet)
}

// TestHistoryBeside: processes that bypass the mount make 200 random changes. Six saves used to
// become one version, which was found only at the next scan. Removed files used to stay in every
// answer until the next mount. At each of 50 pauses, log, diff and undo must agree with the tree.
func TestHistoryBeside(t *testing.T) {
	files := map[string]string{"s": "x\n", "t": "y\n", "d/s": "z\n", "d/deep/er": "w\n"}
	t.Run("root", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("only root can make a mount namespace here")
		}
		p := newProject(t, files)
		side := p.namespace()
		p.mount()
		historyBeside(p, side, p.cb, func(script string) {
			cmd := exec.Command("sh", "-ec", script)
			cmd.Dir = "/"
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s", script, err, out)
			}
		})
	})
	t.Run("user", func(t *testing.T) {
		u := newUsers(t, someUser)
		for name, text := range files {
			u.as(someUser, fmt.Sprintf("mkdir -p %s; printf %q >%s", filepath.Dir(name), text, name))
		}
		side := u.namespace(someUser)
		u.as(someUser, "cd /; $CB mount $P")
		cb := func(args ...string) string {
			t.Helper()
			for i, a := range args {
				args[i] = "'" + a + "'"
			}
			return u.as(someUser, "$CB "+strings.Join(args, " "))
		}
		historyBeside(u.project, side, cb, func(script string) { u.as(someUser, "cd /; "+script) })
	})
}

// TestMadeAgainBeside: a process outside of the mount removes a directory, and another directory
// takes the name before mountd learns of the removal. The files in the new directory must then
// count as created, not as seen for the first time.
func TestMadeAgainBeside(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a mount namespace here")
	}
	p := newProject(t, map[string]string{"d/old": "old\n"})
	side := p.namespace()
	p.mount()
	waitWatched(t, p.cb, p.dir)
	mountd := p.process("mountd")
	if err := syscall.Kill(mountd, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	change := exec.Command("sh", "-ec", "rm -r d; mkdir -p d/e; echo new >d/e/new") // several processes, because the events of one would be merged
	change.Dir = side
	if err := errors.Join(change.Run(), syscall.Kill(mountd, syscall.SIGCONT)); err != nil {
		t.Fatal(err)
	}
	var all []entry
	eventually(t, time.Minute, "the new file is in the log", func() bool {
		all = entriesOf(t, p.cb("log", "--json", "--all", "--baselines", p.dir))
		return slices.ContainsFunc(all, func(e entry) bool { return e.name() == "d/e/new" })
	})
	for _, e := range all {
		if e.name() == "d/e/new" && e.Op != "create" {
			t.Errorf("the new file is recorded as %s", e.Op)
		}
	}
	p.cb("undo", "--yes", "--since", "1h", "--dir", p.dir)
	if tree := asLogged(t, side); tree["d/e"] != "" || tree["d/old"] == "" {
		t.Errorf("after the undo: %v", tree)
	}
}

// waitWatched waits until the existing files are in the log and the source is watched. It returns
// the number of the last version.
func waitWatched(t *testing.T, cb func(...string) string, dir string) (first uint64) {
	t.Helper()
	eventually(t, time.Minute, "what was there is in the log, and the source is watched", func() bool {
		var st struct {
			Watched  bool `json:"watched"`
			Baseline struct {
				Done bool `json:"done"`
			} `json:"baseline"`
		}
		if err := json.Unmarshal([]byte(cb("status", "--json", "--dir", dir)), &st); err != nil {
			t.Fatal(err)
		}
		for _, e := range entriesOf(t, cb("log", "--json", "--baselines", dir)) {
			first = max(first, e.Seq)
		}
		return st.Watched && st.Baseline.Done && first > 0
	})
	return first
}

// historyBeside runs the scenario of TestHistoryBeside. cb runs cachebro, and run runs a script in a
// process that bypasses the mount.
func historyBeside(p *project, beside string, cb func(...string) string, run func(script string)) {
	t := p.t
	t.Helper()
	before := asLogged(t, beside)
	first := waitWatched(t, cb, p.dir)
	rng := rand.New(rand.NewSource(time.Now().UnixNano()))
	var did []string
	defer func() {
		if t.Failed() {
			t.Logf("the last changes: %s\nthe log: %s", strings.Join(did[max(0, len(did)-12):], "\n"), cb("log", "--all", "--baselines", "--limit", "60", p.dir))
		}
	}()
	for pause := range 50 {
		var script strings.Builder
		for range 4 {
			line := changeBeside(rng, beside, len(did))
			did = append(did, line)
			fmt.Fprintln(&script, line)
			if rng.Intn(2) == 0 {
				run("cd " + beside + "; " + script.String())
				script.Reset()
			}
		}
		run("cd " + beside + "; " + script.String())
		if what := disagreement(t, beside, before, first, p.dir, cb); what != "" {
			t.Fatalf("at pause %d: %s", pause, what)
		}
	}
	authors := map[string]bool{}
	for _, e := range entriesOf(t, cb("log", "--json", p.dir)) {
		authors[e.Actor.Comm] = true
	}
	if os.Geteuid() == 0 && strings.HasPrefix(t.Name(), "TestHistoryBeside/root") && !authors["sh"] {
		t.Errorf("nobody is named as the author: %v", authors)
	}
	cb("undo", "--yes", "--since", "1h", "--dir", p.dir)
	if after := asLogged(t, beside); differ(before, after) != "" {
		t.Errorf("after the undo: %s", differ(before, after))
	}
}

// changeBeside returns a random change of the existing files as a line of shell.
func changeBeside(rng *rand.Rand, dir string, n int) string {
	names := []string{"s", "t", "d/s", "a", "b", "d/a", "e/a", "e/b", "link"}
	dirs := []string{"d", "e", "d/deep", "f"}
	name, other := names[rng.Intn(len(names))], names[rng.Intn(len(names))]
	one, two := dirs[rng.Intn(len(dirs))], dirs[rng.Intn(len(dirs))]
	switch rng.Intn(11) {
	case 0, 1, 2:
		return fmt.Sprintf("mkdir -p $(dirname %[1]s) && [ ! -d %[1]s ] && echo %[2]d: %[3]d >%[1]s || :", name, n, rng.Int())
	case 3:
		return fmt.Sprintf("[ ! -f %[1]s ] || echo %[2]d >>%[1]s", name, n)
	case 4:
		return fmt.Sprintf("rm -f %s", name)
	case 5:
		return fmt.Sprintf("[ -f %[1]s ] && mkdir -p $(dirname %[2]s) && mv -f %[1]s %[2]s || :", name, other)
	case 6:
		return fmt.Sprintf("[ -d %[1]s ] && [ ! -e %[2]s ] && mv %[1]s %[2]s || :", one, two)
	case 7:
		return fmt.Sprintf("mkdir -p %[1]s; echo %[2]d >%[1]s/n%[3]d", one, n, rng.Intn(3))
	case 8:
		return fmt.Sprintf("rm -rf %s", one)
	case 9:
		return fmt.Sprintf("[ ! -f %[1]s ] || { echo %[2]d saved >.tmp%[2]d; mv .tmp%[2]d %[1]s; }", name, n)
	}
	return fmt.Sprintf("[ ! -f %[1]s ] || chmod %[2]o %[1]s; ln -sfn to.%[3]d link", name, 0o600+rng.Intn(8)*8, n)
}

// asLogged returns the state of each file below a directory, in the form in which disagreement
// computes it from the log.
func asLogged(t *testing.T, dir string) map[string]string {
	t.Helper()
	tree := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		fi, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			tree[rel] = "directory"
		case d.Type()&fs.ModeSymlink != 0:
			tree[rel], err = os.Readlink(name)
		default:
			var b []byte
			b, err = os.ReadFile(name)
			tree[rel] = fmt.Sprintf("%o %x", fi.Mode().Perm(), sha256.Sum256(b))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func entriesOf(t *testing.T, out string) (all []entry) {
	t.Helper()
	for dec := json.NewDecoder(strings.NewReader(out)); dec.More(); {
		var e entry
		if err := dec.Decode(&e); err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// disagreement describes the first thing in which log, diff or undo does not agree with the tree. It
// returns "" if all agree.
func disagreement(t *testing.T, dir string, before map[string]string, first uint64, project string, cb func(...string) string) string {
	t.Helper()
	tree := asLogged(t, dir)
	newest := map[string]entry{}
	for _, e := range entriesOf(t, cb("log", "--json", "--all", "--baselines", "--limit", "100000", project)) {
		if e.Seq > newest[e.name()].Seq {
			newest[e.name()] = e
		}
		if e.From != "" && e.Op == "rename" && e.Seq > newest[e.From].Seq {
			newest[e.From] = entry{Seq: e.Seq, Deleted: true}
		}
	}
	known := map[string]string{}
	for name, e := range newest {
		switch {
		case e.Deleted:
		case e.Mode&syscall.S_IFMT == syscall.S_IFDIR:
			known[name] = "directory"
		case e.Mode&syscall.S_IFMT == syscall.S_IFLNK:
			known[name] = e.Target
		default:
			known[name] = fmt.Sprintf("%o %s", e.Mode&0o777, e.Hash)
		}
	}
	if d := differ(tree, known); d != "" {
		return "log: " + d
	}
	changed := map[string]string{}
	for name := range tree {
		if before[name] != tree[name] {
			changed[name] = ""
		}
	}
	for name := range before {
		if before[name] != tree[name] {
			changed[name] = ""
		}
	}
	var diff struct {
		Diff string `json:"diff"`
	}
	if err := json.Unmarshal([]byte(cb("diff", fmt.Sprint(first), "--json", project)), &diff); err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	for line := range strings.Lines(diff.Diff) {
		if names, ok := strings.CutPrefix(strings.TrimSpace(line), "diff --git a/"); ok {
			from, to, _ := strings.Cut(names, " b/")
			said[from], said[to] = "", ""
		}
	}
	if d := differ(changed, said); d != "" {
		return "diff: " + d
	}
	var plan struct {
		Conflicts []any `json:"conflicts"`
		Left      []any `json:"left"`
		Lost      []any `json:"lost"`
		Steps     []struct {
			Path, Do, Expect string
		} `json:"steps"`
	}
	if len(changed) == 0 {
		return ""
	}
	if err := json.Unmarshal([]byte(cb("undo", "--dry-run", "--json", "--since", "1h", "--dir", project)), &plan); err != nil {
		t.Fatal(err)
	}
	if len(plan.Conflicts)+len(plan.Left)+len(plan.Lost) > 0 {
		return fmt.Sprintf("undo: conflicts %v, left %v, lost %v", plan.Conflicts, plan.Left, plan.Lost)
	}
	for _, s := range plan.Steps {
		if s.Do == "rename" || s.Do == "exchange" {
			return "" // later steps expect the files as earlier steps leave them, not as they are now
		}
		_, hash, file := strings.Cut(tree[s.Path], " ")
		if file && s.Expect != "" && s.Expect != "absent" && hash != s.Expect {
			return fmt.Sprintf("undo expects %s in %s, and there is %s", s.Expect, s.Path, tree[s.Path])
		}
	}
	return ""
}

// TestMountAgain: a mount namespace that was made while the project was mounted keeps a copy of
// the mount as long as a process is in it. Although nobody used the copy, umount used to fail with
// status 3, and the next mount was refused until that process was killed.
func TestMountAgain(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a mount namespace here")
	}
	t.Run("root", func(t *testing.T) {
		p := newProject(t, map[string]string{"a": "one\n"})
		mountAgain(p, p.try, func(script string) { p.sh(script) }, exec.Command("unshare", "-m", "sh", "-c"), true)
	})
	t.Run("user", func(t *testing.T) { // fusermount3 cannot mount it again
		u := newUsers(t, someUser)
		ask := func(args ...string) (string, error) { return u.try(someUser, "cd /; $CB "+strings.Join(args, " ")) }
		mountAgain(u.project, ask, func(script string) { u.as(someUser, script) }, u.unshare(someUser), false)
	})
}

// mountAgain runs the scenario of TestMountAgain. ask makes the owner of the mount run cachebro,
// and run runs a script on the mount. enter runs a script in a mount namespace of its own, which
// begins with a copy of the mount. same means that the same mountd continues.
func mountAgain(p *project, ask func(...string) (string, error), run func(string), enter *exec.Cmd, same bool) {
	t := p.t
	t.Helper()
	cb := func(args ...string) string {
		t.Helper()
		out, err := ask(args...)
		if err != nil {
			t.Fatalf("%q: %v: %s", args, err, out)
		}
		return out
	}
	hold := func(script string) *exec.Cmd {
		t.Helper()
		cmd := exec.Command(enter.Path, append(enter.Args[1:len(enter.Args):len(enter.Args)], script+"; echo ready; exec sleep infinity")...)
		cmd.Dir = "/"
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		if _, err := fmt.Fscanln(out, new(string)); err != nil {
			t.Skipf("no mount namespace: %v", err)
		}
		return cmd
	}
	served := func() bool {
		return slices.ContainsFunc(p.processes(), func(pid int) bool {
			args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			return strings.Contains(string(args), "\x00mountd\x00")
		})
	}
	cb("mount", p.dir)
	first := p.process("mountd")
	holder := hold("true")
	if out := cb("umount", p.dir); !strings.Contains(out, "no process has anything open in the copies") {
		t.Errorf("umount: %s", out)
	}
	if err := os.WriteFile(p.path("between"), []byte("between\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	cb("mount", p.dir)
	if is := p.process("mountd") == first; is != same {
		t.Errorf("the same mountd: %v", is)
	}
	eventually(t, time.Minute, "what was written in between is in the log", func() bool {
		return slices.ContainsFunc(entriesOf(t, cb("log", "--json", "--baselines", p.dir)), func(e entry) bool { return e.name() == "between" })
	})
	run("echo later >later")
	eventually(t, time.Minute, "a write on the mount has its author", func() bool {
		return slices.ContainsFunc(entriesOf(t, cb("log", "--json", p.dir)), func(e entry) bool { return e.name() == "later" && e.Actor.Comm == "sh" && e.Op == "create" })
	})
	_ = holder.Process.Kill()
	_ = holder.Wait()
	inside := hold("cd " + p.dir) // another process, with its working directory in the mount
	if out, err := ask("umount", p.dir); err == nil || !strings.Contains(out, "still in use by sleep") {
		t.Errorf("umount with somebody inside: %v: %s", err, out)
	}
	if out, err := ask("mount", p.dir); same != (err == nil) || !same && !strings.Contains(out, "umount --force") {
		t.Errorf("mount with somebody inside: %v: %s", err, out)
	}
	if _, err := ask("umount", p.dir); same && err == nil {
		t.Error("umount says that nobody is inside")
	}
	_ = inside.Process.Kill()
	_ = inside.Wait()
	eventually(t, time.Minute, "the mount ends with its last user", func() bool { return !served() })
	cb("mount", p.dir)
	cb("umount", p.dir)
}
