package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The tree of each moment reads as it was then: contents, modes, links, moved and
// removed directories; also when the daemon was killed, and read-only.
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

	// What is printed stays the same moment: at/1s is another one a second later, and a
	// script that goes on with the name would read of both.
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
	time.Sleep(1500 * time.Millisecond) // the name's second has gone
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

// What was never kept says so, and does not read as something else.
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

// change does one thing to the tree that people do.
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
		_ = unix.Renameat2(unix.AT_FDCWD, pick(all), unix.AT_FDCWD, pick(all), unix.RENAME_EXCHANGE)
	}
}
