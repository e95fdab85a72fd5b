package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The tree of each moment reads as it was then: contents, modes, links, moved and removed
// directories. This also holds after the daemon was killed, and the tree is read-only.
func TestPastIsWhatItWas(t *testing.T) {
	files := map[string]string{}
	for i := range 12 {
		files[fmt.Sprintf("d%d/e%d/f%d.txt", i%3, i%2, i)] = fmt.Sprintf("first %d\n", i)
		files[fmt.Sprintf("d%d.x/g%d", i%3, i)] = strings.Repeat("line\n", i*100)
	}
	p := newProject(t, files)
	p.mount()
	p.scanned()
	seed := int64(7)
	if s := os.Getenv("CACHEBRO_SEED"); s != "" {
		seed, _ = strconv.ParseInt(s, 10, 64)
	}
	r := rand.New(rand.NewSource(seed))
	type moment struct {
		at   string
		tree map[string]string
	}
	moments := []moment{{p.newest(), treeOf(t, p.dir)}}
	for range 10 {
		for range 10 {
			p.change(r)
		}
		moments = append(moments, moment{p.newest(), treeOf(t, p.dir)})
	}
	for i, m := range moments {
		if i == len(moments)/2 {
			_ = syscall.Kill(p.process("daemon"), syscall.SIGKILL)
		}
		dir := strings.TrimSpace(p.cb("at", m.at, "--dir", p.dir))
		if d := differ(m.tree, treeOf(t, dir)); d != "" {
			t.Errorf("seed %d, moment %d (%s):\n%s", seed, i, m.at, d)
		}
	}

	// The printed path always means the same moment. at/1s means another moment a second later, so
	// a script that used that name would read files of different moments.
	stands := exec.Command("sh", "-c", `cd "$1"; read x; pwd -P; ls | wc -l`, "sh", strings.TrimSpace(p.cb("at", "1s", "--dir", p.dir)))
	in, err := stands.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	stands.Stdout, stands.Stderr = &said, &said
	if err := stands.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1500 * time.Millisecond) // by now at/1s means another moment
	p.write("later.txt", "later\n")
	p.cb("at", "1s", "--dir", p.dir)
	in.Close()
	if err := stands.Wait(); err != nil || !strings.Contains(said.String(), "/at/version/") {
		t.Errorf("in a moment: %v\n%s", err, said.String())
	}

	top := strings.TrimSpace(p.cb("at", "--dir", p.dir))
	if err := os.WriteFile(filepath.Join(top, "at", "1m", "new"), nil, 0o644); !errors.Is(err, syscall.EROFS) {
		t.Errorf("a new file: %v", err)
	}
	if _, err := os.Stat(filepath.Join(top, "at", "no moment")); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("no moment: %v", err)
	}
	p.write("v.txt", "one\n")
	p.write("v.txt", "two two\n")
	eventually(t, time.Minute, "two versions", func() bool {
		dir, err := p.try("at", "--versions", filepath.Join(p.dir, "v.txt"))
		all, _ := os.ReadDir(strings.TrimSpace(dir))
		if err != nil || len(all) != 2 {
			return false
		}
		for i, want := range []string{"one\n", "two two\n"} {
			b, err := os.ReadFile(filepath.Join(strings.TrimSpace(dir), all[i].Name()))
			if err != nil || string(b) != want {
				t.Errorf("version %s: %q, %v", all[i].Name(), b, err)
			}
		}
		return true
	})

	p.cb("umount", p.dir)
	if _, err := os.Stat(filepath.Join(top, "at")); err == nil {
		t.Errorf("%s is there after umount", top)
	}
}

// After many random changes, at/ shows the same bytes, modes and links for each of some moments as a
// restore of that moment makes, even while others write. Contents of ignored files are either right
// or reported as unknown.
func TestPastIsWhatRestoreMakes(t *testing.T) {
	n, seed := 12, int64(3)
	if s := os.Getenv("CACHEBRO_MOMENTS"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	if s := os.Getenv("CACHEBRO_SEED"); s != "" {
		seed, _ = strconv.ParseInt(s, 10, 64)
	}
	files := map[string]string{".gitignore": "*.ign\n/ign/\n", "ign/i0": "ignored\n", "d0/x.ign": "ignored\n"}
	for i := range 20 {
		files[fmt.Sprintf("d%d/e%d/f%d.txt", i%3, i%2, i)] = fmt.Sprintf("first %d\n", i)
	}
	p := newProject(t, files)
	p.sh("ln -s ../d1 d0/l; ln -s nowhere d1/dangling; chmod 750 d2; chmod 755 d1/e0/*")
	p.mount()
	p.scanned()
	r := rand.New(rand.NewSource(seed))
	for range 20 * n {
		p.change(r)
		if r.Intn(10) == 0 {
			_ = os.WriteFile(p.path(fmt.Sprintf("ign/i%d", r.Intn(3))), []byte("ignored again\n"), 0o644)
			_ = os.WriteFile(p.path(fmt.Sprintf("d%d/y.ign", r.Intn(3))), []byte("more\n"), 0o600)
		}
	}
	last, _ := strconv.Atoi(p.newest()[1:])
	first := last
	for _, e := range p.log("") {
		first = min(first, int(e.Seq))
	}

	// While somebody writes, two reads of the same moment return the same tree.
	moments, shown := make([]string, n), make([]map[string]string, n)
	stop, stopped := make(chan struct{}), make(chan struct{})
	quiet := sync.OnceFunc(func() { close(stop); <-stopped })
	defer quiet()
	go func() {
		defer close(stopped)
		r := rand.New(rand.NewSource(seed + 1))
		for {
			select {
			case <-stop:
				return
			default:
				p.change(r)
			}
		}
	}()
	for i := range moments {
		moments[i] = fmt.Sprintf("#%d", first+r.Intn(last-first+1))
		shown[i] = pastTree(t, strings.TrimSpace(p.cb("at", moments[i], "--dir", p.dir)))
	}
	quiet()

	unknown := 0
	for i, m := range moments {
		dir := strings.TrimSpace(p.cb("at", m, "--dir", p.dir))
		if d := differ(shown[i], pastTree(t, dir)); d != "" {
			t.Errorf("seed %d, %s was shown otherwise while others wrote:\n%s", seed, m, d)
		}
		said, _ := p.try("restore", "--at", m, "--yes", "--dir", p.dir) // the status is 1 if something is lost, which is then named
		real := pastTree(t, p.dir)
		for name, facts := range shown[i] {
			if facts == notKept {
				unknown++
				delete(shown[i], name)
				delete(real, name)
			}
		}
		for name := range real { // files that nobody has read come back with their directory
			if shown[i][name] == "" && filepath.Base(name) == "x.ign" {
				delete(real, name)
			}
		}
		if d := differ(real, shown[i]); d != "" {
			t.Errorf("seed %d, %s:\n%s\nthe restore said:\n%s", seed, m, d, said)
		}
	}
	t.Logf("%d moments of %d…%d, %d times a content was not known", n, first, last, unknown)
}

const notKept = "a content that was not kept"

// pastTree returns every path below a directory with its kind, mode, size and content.
func pastTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		facts := fi.Mode().String()
		switch {
		case fi.Mode().IsRegular():
			b, err := os.ReadFile(name)
			if errors.Is(err, syscall.EIO) {
				why := make([]byte, 200)
				if n, err := unix.Getxattr(name, "user.cachebro.why", why); err != nil || n == 0 {
					t.Errorf("%s does not say why: %v", name, err)
				}
				out[strings.TrimPrefix(name, dir+"/")] = notKept
				return nil
			}
			if err != nil {
				return err
			}
			facts += fmt.Sprintf(" %d %s", fi.Size(), b)
		case fi.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(name)
			if err != nil {
				return err
			}
			facts += " " + to
		}
		out[strings.TrimPrefix(name, dir+"/")] = facts
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Reading a content that was never stored fails. It never returns another content.
func TestPastOfWhatWasNotKept(t *testing.T) {
	p := newProject(t, map[string]string{".gitignore": "*.ign\n", "a.txt": "a\n"})
	p.mount()
	p.scanned()
	p.write("b.ign", "ignored\n")
	p.write("a.txt", "b\n")
	dir := strings.TrimSpace(p.cb("at", p.newest(), "--dir", p.dir))
	name := filepath.Join(dir, "b.ign")
	if _, err := os.ReadFile(name); !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.ENOENT) {
		t.Errorf("an ignored file: %v", err)
	} else if errors.Is(err, syscall.EIO) {
		b := make([]byte, 200)
		if n, err := unix.Getxattr(name, "user.cachebro.why", b); err != nil || n == 0 {
			t.Errorf("it does not say why: %v", err)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "a.txt")); err != nil || string(b) != "b\n" {
		t.Errorf("a.txt: %q, %v", b, err)
	}
}

// A purged content is gone even for a process that has read it before, and its attribute says why.
func TestPastOfWhatWasPurged(t *testing.T) {
	p := newProject(t, map[string]string{"key": "secret\n", "a.txt": "a\n"})
	p.mount()
	p.scanned()
	p.write("a.txt", "b\n")
	moment := strings.TrimSpace(p.cb("at", p.newest(), "--dir", p.dir))
	versions := strings.TrimSpace(p.cb("at", "--versions", p.path("key")))
	p.write("key", "another\n")
	all, err := os.ReadDir(versions)
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	names := []string{filepath.Join(moment, "key"), filepath.Join(versions, all[0].Name())}
	for _, name := range names {
		for range 2 {
			if b, err := os.ReadFile(name); err != nil || string(b) != "secret\n" {
				t.Fatalf("%s: %q, %v", name, b, err)
			}
		}
	}
	p.cb("store", "purge", "--yes", p.path("key"))
	for _, name := range names {
		if b, err := os.ReadFile(name); !errors.Is(err, syscall.EIO) {
			t.Errorf("%s after the purge: %q, %v", name, b, err)
		}
		why := make([]byte, 200)
		if n, err := unix.Getxattr(name, "user.cachebro.why", why); err != nil || string(why[:n]) != "purged" {
			t.Errorf("%s says why: %q, %v", name, why[:max(n, 0)], err)
		}
	}
	if b, err := os.ReadFile(filepath.Join(moment, "a.txt")); err != nil || string(b) != "b\n" {
		t.Errorf("a.txt: %q, %v", b, err)
	}
}

// The next mount used to record a purged content again if its file still had it.
func TestPurgedStaysPurged(t *testing.T) {
	p := newProject(t, map[string]string{"keys/a": "secret\n", "b": "b\n"})
	p.mount()
	p.scanned()
	p.write("keys/c", "secret, too\n")
	p.cb("store", "purge", "--yes", p.path("keys"))
	p.unmount()
	p.write("b", "changed meanwhile\n")
	p.mount()
	p.scanned()
	contents := map[string]bool{}
	for _, e := range p.log("", "--baselines") {
		contents[e.name()] = contents[e.name()] || e.Hash != ""
	}
	if want := map[string]bool{"keys": false, "keys/a": false, "keys/c": false, "b": true}; !maps.Equal(contents, want) {
		t.Errorf("has a content: %v, want %v", contents, want)
	}
	p.write("keys/a", "no secret\n")
	if got := p.cb("show", p.path("keys/a")); got != "no secret\n" {
		t.Errorf("what is written after the purge: %q", got)
	}
}

// change makes one change to the tree, as people do.
func (p *project) change(r *rand.Rand) {
	p.t.Helper()
	var all, dirs []string
	_ = filepath.WalkDir(p.dir, func(name string, d fs.DirEntry, err error) error {
		if rel, _ := filepath.Rel(p.dir, name); err == nil && d.IsDir() {
			dirs = append(dirs, rel)
		} else if err == nil {
			all = append(all, rel)
		}
		return nil
	})
	pick := func(of []string) string {
		if len(of) == 0 {
			return p.path("none")
		}
		return p.path(of[r.Intn(len(of))])
	}
	fresh := func() string { return filepath.Join(pick(dirs), fmt.Sprintf("n%d", r.Intn(1000))) }
	text := []byte(fmt.Sprintf("text %d\n", r.Intn(1000)))
	switch r.Intn(12) {
	case 0, 1:
		_ = os.WriteFile(pick(all), text, 0o644)
	case 2:
		_ = os.WriteFile(fresh(), text, 0o644)
	case 3:
		if f, err := os.OpenFile(pick(all), os.O_WRONLY|os.O_APPEND, 0); err == nil {
			_, _ = f.Write(text)
			f.Close()
		}
	case 4:
		to := pick(all)
		if os.WriteFile(to+"~", text, 0o640) == nil {
			_ = os.Rename(to+"~", to)
		}
	case 5:
		_ = os.Chmod(pick(all), []os.FileMode{0o600, 0o755, 0o444}[r.Intn(3)])
	case 6:
		_ = os.Remove(pick(all))
	case 7:
		_ = os.Rename(pick(all), fresh())
	case 8:
		_ = os.Rename(pick(dirs[1:]), fresh())
	case 9:
		if r.Intn(3) == 0 {
			_ = os.RemoveAll(pick(dirs[1:]))
		}
	case 10:
		_ = os.Symlink(fmt.Sprintf("to%d", r.Intn(9)), fresh())
		_ = os.Mkdir(fresh(), 0o750)
	case 11:
		_ = os.Link(pick(all), fresh())
		_ = exchange(pick(all), pick(all))
	}
}

// A signal to the reading process must not make the read fail. The kernel tells a file system of
// each signal, and a Go program sends itself many signals, so readdir used to return EIO sometimes.
func TestPastUnderSignals(t *testing.T) {
	files := map[string]string{}
	for i := range 40 {
		files[fmt.Sprintf("d%d/f%d.txt", i, i)] = fmt.Sprintf("content %d\n", i)
	}
	p := newProject(t, files)
	p.mount()
	p.scanned()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGURG)
	defer signal.Reset(syscall.SIGURG)
	stop, stopped := make(chan struct{}), make(chan struct{})
	defer func() { close(stop); <-stopped }()
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Microsecond):
			}
			signalThreads(syscall.SIGURG)
		}
	}()
	for i := range 8 { // each is another moment, which the kernel has not cached
		p.write("d0/f0.txt", fmt.Sprintf("%d\n", i))
		if all := pastTree(t, strings.TrimSpace(p.cb("at", p.newest(), "--dir", p.dir))); len(all) != 2*len(files) {
			t.Errorf("%d of %d paths", len(all), 2*len(files))
		}
	}
}

// Without the daemon, the past soon answers with the right bytes or with an error, and the
// project is not affected. That holds both if the daemon is killed and restarted, and if it
// cannot be restarted.
func TestPastWithoutDaemon(t *testing.T) {
	files := map[string]string{}
	for i := range 30 {
		files[fmt.Sprintf("d%d/f%d.txt", i%6, i)] = fmt.Sprintf("content %d\n", i)
	}
	p := newProject(t, files)
	p.mount()
	p.scanned()
	var moments []string
	for i := range 8 { // each is another moment, which nobody has read yet
		p.write("a.txt", fmt.Sprintf("%d\n", i))
		moments = append(moments, p.newest()[1:])
	}
	top := strings.TrimSpace(p.cb("at", "--dir", p.dir))
	// soon reads everything of a moment; it reports whether all could be read.
	soon := func(moment, a string) (all bool) {
		dir := filepath.Join(top, "at", "version", moment)
		look := func(name, want string) {
			began := time.Now()
			b, err := os.ReadFile(filepath.Join(dir, name))
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("%s of moment %s took %v", name, moment, took)
			}
			switch {
			case errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EIO):
				all = false
			case err != nil || string(b) != want:
				t.Errorf("%s of moment %s: %q, %v", name, moment, b, err)
			}
		}
		all = true
		look("a.txt", a)
		for name, text := range files {
			if look(name, text); !all {
				break
			}
		}
		began := time.Now()
		p.write("live.txt", moment)
		if b, err := os.ReadFile(p.path("live.txt")); err != nil || string(b) != moment {
			t.Errorf("live: %q, %v", b, err)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("a write to the project took %v", took)
		}
		return all
	}
	for i, m := range moments[:4] {
		_ = syscall.Kill(p.process("daemon"), syscall.SIGKILL)
		soon(m, fmt.Sprintf("%d\n", i))
		eventually(t, time.Minute, "the moment is answered again", func() bool { return soon(m, fmt.Sprintf("%d\n", i)) })
	}

	// Another process holds the lock for starting the daemon, and does not finish.
	lock, err := os.OpenFile(filepath.Join(p.state(), "start.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	daemon := p.process("daemon")
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	_ = syscall.Kill(daemon, syscall.SIGKILL)
	for i, m := range moments[4:6] {
		if soon(m, fmt.Sprintf("%d\n", i+4)) {
			t.Errorf("moment %s was answered by nothing", m)
		}
	}
	soon(moments[0], "0\n") // a part of this moment is cached
	lock.Close()
	eventually(t, time.Minute, "a moment is answered again", func() bool { return soon(moments[4], "4\n") })

	// The daemon runs and accepts requests, but answers none.
	daemon = p.process("daemon")
	if err := syscall.Kill(daemon, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(daemon, syscall.SIGCONT) })
	for i, m := range moments[6:] {
		began := time.Now()
		if soon(m, fmt.Sprintf("%d\n", i+6)) {
			t.Errorf("moment %s was answered by a daemon that is stopped", m)
		}
		if took := time.Since(began); took > 2500*time.Millisecond {
			t.Errorf("a stopped daemon costs a look %v", took)
		}
	}
	if err := syscall.Kill(daemon, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for i, m := range moments {
		eventually(t, time.Minute, "everything is answered again", func() bool { return soon(m, fmt.Sprintf("%d\n", i)) })
	}
}
