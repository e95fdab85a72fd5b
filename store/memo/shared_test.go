//go:build linux && (amd64 || arm64)

package memo

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// clone replaces the project by another clone, as on another machine: the same names and
// contents, created in another order, with other inodes, times and link counts.
func (b *bench) clone() {
	b.t.Helper()
	old := b.root + "-before"
	if err := os.RemoveAll(old); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Rename(b.root, old); err != nil {
		b.t.Fatal(err)
	}
	var all []string
	err := filepath.WalkDir(old, func(path string, _ fs.DirEntry, err error) error {
		all = append(all, strings.TrimPrefix(path, old))
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	slices.Reverse(all)
	then := time.Now().AddDate(-1, 0, 0)
	for i, name := range all {
		from, to := old+name, b.root+name
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			b.t.Fatal(err)
		}
		fi, err := os.Lstat(from)
		if err != nil {
			b.t.Fatal(err)
		}
		switch {
		case fi.IsDir():
			if err := os.MkdirAll(to, fi.Mode().Perm()); err != nil {
				b.t.Fatal(err)
			}
		case fi.Mode().Type() == fs.ModeSymlink:
			target, err := os.Readlink(from)
			if err == nil {
				err = os.Symlink(target, to)
			}
			if err != nil {
				b.t.Fatal(err)
			}
			continue
		default:
			text, err := os.ReadFile(from)
			if err == nil {
				err = os.WriteFile(to, text, fi.Mode().Perm())
			}
			if err == nil {
				err = os.Link(to, filepath.Join(b.getenv("TMPDIR"), filepath.Base(b.t.TempDir())+filepath.Base(name)))
			}
			if err != nil {
				b.t.Fatal(err)
			}
		}
		if err := os.Chtimes(to, then, then.Add(time.Duration(i)*time.Hour)); err != nil {
			b.t.Fatal(err)
		}
	}
}

// TestSharedByContent: another clone of the same files replays only commands whose output depends
// on nothing but contents, names and modes. A replay prints what a run would print.
func TestSharedByContent(t *testing.T) {
	t.Setenv("PATH", "/usr/bin:/bin:"+os.Getenv("PATH")) // these directories have the programs, not scripts that look for them
	b := newBench(t, map[string]string{"a.txt": "one\n", "b.txt": "two\n", "d/x": "x\n", "d/y": "y\n", "d/sub/z": "z\n", "empty": "",
		"go.mod": "module m\n\ngo 1.21\n", "m.go": "package m\n\nfunc F() int { return 1 }\n", "c/stamp.c": "__TIMESTAMP__\n", "c/plain.c": "int main(void) { return 0; }\n",
		"m_test.go": "package m\n\nimport \"testing\"\n\nfunc TestF(t *testing.T) {\n\tif F() != 1 {\n\t\tt.Fatal()\n\t}\n}\n"})
	b.env = append(b.env, "GOCACHE="+goCache(t), "GOFLAGS=-mod=mod", "GOTOOLCHAIN=local", "GOMODCACHE="+os.Getenv("GOMODCACHE"))
	for i := range 40 {
		b.write("many/"+strings.Repeat("n", i+1), "many\n")
	}
	if err := os.Symlink("a.txt", filepath.Join(b.root, "link")); err != nil {
		t.Fatal(err)
	}
	static := filepath.Join(b.root, b.static())
	script := func(s string) []string { return []string{"sh", "-c", s} }
	python := func(s string) []string { return []string{"python3", "-c", s} }
	for _, c := range []struct {
		args  []string
		holds bool // this command must be replayed; the others may be
	}{
		{[]string{"cat", "a.txt", "link"}, true},
		{[]string{"sort", "a.txt", "b.txt"}, true},
		{[]string{"wc", "-c", "a.txt", "empty"}, true},
		{[]string{"grep", "-n", "one", "a.txt"}, true},
		{[]string{"sha256sum", "a.txt"}, true},
		{[]string{static, "read", "a.txt"}, true},
		{[]string{"go", "list", "./..."}, true},
		{[]string{"go", "vet", "./..."}, true},
		{[]string{"go", "build", "./..."}, true},
		{[]string{"go", "test", "./..."}, true},
		{[]string{"grep", "-rn", "many", "many"}, false}, // prints in the order of the directory
		{[]string{"ls", "-U", "many"}, false},
		{[]string{"find", "many"}, false},
		{[]string{"ls", "-l"}, false},
		{[]string{"ls", "-i", "a.txt"}, false},
		{[]string{"ls", "-t"}, false},
		{[]string{"ls", "--full-time", "-d", "."}, false},
		{[]string{"stat", "a.txt"}, false},
		{[]string{"stat", "-c", "%Y", "a.txt"}, false},
		{[]string{"stat", "-c", "%i", "a.txt"}, false},
		{[]string{"stat", "-c", "%h", "a.txt"}, false},
		{[]string{"stat", "-c", "%Z", "a.txt"}, false},
		{[]string{"stat", "-c", "%X", "a.txt"}, false},
		{[]string{"stat", "-c", "%Y %i", "link"}, false},
		{[]string{"stat", "-c", "%Y %i", "d"}, false},
		{[]string{"stat", "-c", "%s", "a.txt"}, false},
		{[]string{"find", ".", "-newer", "b.txt"}, false},
		{[]string{"find", "a.txt", "-printf", "%T@ %i"}, false},
		{[]string{"du", "-b", "d"}, false},
		{[]string{"tar", "cf", "-", "d"}, false},
		{[]string{"diff", "-u", "a.txt", "a.txt"}, false},
		{[]string{static, "fstat", "a.txt"}, false},
		{[]string{static, "read-and-fstat", "a.txt"}, false},
		{[]string{static, "read-and-stat", "a.txt"}, false},
		{[]string{"gcc", "-E", "c/stamp.c"}, false},
		{[]string{"gcc", "-fsyntax-only", "c/plain.c"}, false},
		{script("test a.txt -nt b.txt && echo newer; true"), false},
		{script("test a.txt -nt b.txt || echo older; true"), false},
		{script("exec 4<a.txt; stat -L -c %i /proc/self/fd/4"), false},
		{script("exec 4<a.txt; " + static + " fstat -; cat <&4"), false},
		{python("print(open('a.txt').read())"), false},
		{python("import os; print(os.stat('a.txt').st_mtime_ns)"), false},
		{python("import os; print(os.fstat(os.open('a.txt', 0)).st_ino)"), false},
		{python("import os; print([e.inode() for e in os.scandir('d')])"), false},
		{python("import os; print(os.listdir('many'))"), false},
		{python("import os; print(os.stat(os.open('d', 0)).st_mtime)"), false},
		{python("import os; print(os.lseek(os.open('a.txt', 0), 0, os.SEEK_DATA))"), false},
		{python("print(open('/proc/self/stat').read())"), false},
		{python("print(open('/proc/self/fdinfo/0').read())"), false},
	} {
		if _, err := exec.LookPath(c.args[0]); err != nil && !strings.HasPrefix(c.args[0], "./") {
			t.Logf("%s: not here", c.args[0])
			continue
		}
		name := strings.Join(c.args, " ")
		rec, said := b.repeatable(nil, c.args...)
		b.clone()
		ok, why, _ := rec.StillValid(b.root, time.Now())
		if ok {
			if _, now := b.run(nil, c.args...); now != text(rec.Output) && c.args[0] != "go" { // go prints how long it took
				t.Errorf("%s: repeated\n%swhere a run says\n%s", name, text(rec.Output), now)
			}
			if stays := rec.WhyLocal(); stays != "" {
				t.Errorf("%s: holds in another clone, and %s", name, stays)
			}
			continue
		}
		t.Logf("%s: %s", name, why)
		if c.holds {
			t.Errorf("%s: not repeated in another clone: %s; it said\n%s", name, why, said)
		}
	}
	// If the command is declared not to depend on times, it still depends on contents and names.
	timeless := func(o *Options) { o.Timeless = true }
	for _, args := range [][]string{python("print(open('a.txt').read())"), script("cat a.txt; ls d"), {"ls", "d"}, {"stat", "-c", "%s", "a.txt"}, {static, "read-and-stat", "a.txt"}} {
		rec, _ := b.repeatable(timeless, args...)
		b.clone()
		b.holds(rec, strings.Join(args, " ")+", whatever the times", len(rec.Why) == 0)
		b.write("a.txt", "one and more\n")
		b.write("d/new", "")
		b.holds(rec, strings.Join(args, " ")+", of other files", false)
		b.write("a.txt", "one\n")
		if err := os.Remove(filepath.Join(b.root, "d/new")); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPoisonedRecord: a record from a shared store may name a file that could be read without end,
// or describe a file falsely. Such a record is rejected.
func TestPoisonedRecord(t *testing.T) {
	for _, s := range []Seen{
		{Path: "/dev/zero", Stat: stat{Kind: kernel}}, {Path: "/proc/kmsg", Stat: stat{Kind: kernel}}, {Path: "/etc/passwd", Stat: stat{Kind: kernel}},
		{Path: "../x", Inside: true}, {Path: "/abs", Inside: true}, {Path: "rel"},
	} {
		raw, err := (Record{Seen: []Seen{s}}).Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(raw); err == nil {
			t.Errorf("%+v is believed", s)
		}
	}
}
