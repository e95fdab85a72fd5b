package capture

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cachebro/fusefs/capture/spool"
	"cachebro/fusefs/sys"

	"golang.org/x/sys/unix"
)

// A file whose names change while it is written: what it held then is a version
// by its writer. Nobody's is only what was found before the first dirty byte.
func TestNamesChangeWhileWritten(t *testing.T) {
	files := map[string]string{".gitignore": "*.log\n", ".git/HEAD": "ref: refs/heads/main\n"}
	cases := []struct {
		name   string
		change func(dir string) error // dir holds f, which is dirty, and x
		want   []string               // versions with content, nobody's in parentheses
	}{
		{"rename", func(d string) error { return os.Rename(d+"/f", d+"/g") },
			[]string{"(f old)", "f one", "g onetwo"}},
		{"rename over another", func(d string) error { return os.Rename(d+"/f", d+"/x") },
			[]string{"(f old)", "f one", "(x other)", "x onetwo"}},
		{"another renamed over it", func(d string) error { return os.Rename(d+"/x", d+"/f") },
			[]string{"(f old)", "f one", "(x other)", "f (written after its name was taken) onetwo"}}, // by us, as by a plan
		{"link", func(d string) error { return os.Link(d+"/f", d+"/g") },
			[]string{"(f old)", "f one", "g onetwo"}},
		{"unlink of one of two", func(d string) error { return os.Remove(d + "/f") },
			[]string{"(f old)", "second one", "second onetwo"}}, // the newest name stands for both
		{"exchange", func(d string) error { return exchange(d+"/f", d+"/x") },
			[]string{"(f old)", "f one", "(x other)", "x onetwo"}},
		{"exchange with what is written", func(d string) error { return exchange(d+"/x", d+"/f") },
			[]string{"(f old)", "f one", "(x other)", "x onetwo"}},
		{"into .git", func(d string) error { return os.Rename(d+"/f", filepath.Dir(d)+"/.git/f") },
			[]string{"(f old)", "f one"}},
		{"to an ignored name", func(d string) error { return os.Rename(d+"/f", d+"/f.log") },
			[]string{"(f old)", "f one"}},
		{"directory", func(d string) error { return os.Rename(d, d+"-moved") },
			[]string{"(f old)", "f one", "-moved/f onetwo"}},
		{"directory into .git", func(d string) error { return os.Rename(d, filepath.Dir(d)+"/.git/d") },
			[]string{"(f old)", "f one"}},
	}
	for i, c := range cases {
		d := fmt.Sprintf("c%02d/", i)
		files[d+"f"], files[d+"x"] = "old", "other"
		if c.name == "unlink of one of two" {
			delete(files, d+"x")
		}
	}
	m := mount(t, files, nil)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range cases {
		d := filepath.Join(m.dir, fmt.Sprintf("c%02d", i))
		if c.name == "unlink of one of two" {
			check(os.Link(d+"/f", d+"/second"))
		}
		f, err := os.OpenFile(d+"/f", os.O_RDWR, 0)
		check(err)
		_, err = f.WriteAt([]byte("one"), 0)
		check(err)
		if err := c.change(d); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		_, err = f.WriteAt([]byte("two"), 3)
		check(err)
		check(f.Close())
	}
	// New files that are named while they are open.
	f, err := os.OpenFile(m.dir+"/made", os.O_CREATE|os.O_WRONLY, 0o644)
	check(err)
	_, err = f.WriteString("one")
	check(err)
	check(os.Rename(m.dir+"/made", m.dir+"/made2"))
	_, err = f.WriteString("two")
	check(err)
	check(f.Close())
	want := []string{"made one", "made2 onetwo"}
	if sys.Points {
		tmpfile(t, m.dir)
		want = append(want, "tmpfile one", "tmpfile onetwo")
	}

	log := m.end()
	wantNoGaps(t, log)
	got := map[string][]string{}
	for _, e := range log {
		if e.Kind != spool.KindVersion || !e.HasContent || e.content == "" {
			continue
		}
		c, name := "", e.Path
		if strings.HasPrefix(e.Path, "c") {
			c, name = e.Path[:3], strings.TrimPrefix(e.Path[3:], "/")
		}
		line := name + " " + e.content
		if e.missing {
			line += " (missing)"
		}
		if e.PID == 0 {
			line = "(" + line + ")"
		}
		got[c] = append(got[c], line)
	}
	for i, c := range cases {
		if all := got[fmt.Sprintf("c%02d", i)]; !slices.Equal(all, c.want) {
			t.Errorf("%s:\n\t%q\nwant\n\t%q", c.name, all, c.want)
		}
	}
	if !slices.Equal(got[""], want) {
		t.Errorf("new files: %q, want %q", got[""], want)
	}
}

// tmpfile makes a file without a name, and gives it one between two writes.
func tmpfile(t *testing.T, dir string) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	_, err1 := unix.Write(fd, []byte("one"))
	err2 := unix.Linkat(unix.AT_FDCWD, fmt.Sprint("/proc/self/fd/", fd), unix.AT_FDCWD, dir+"/tmpfile", unix.AT_SYMLINK_FOLLOW)
	_, err3 := unix.Write(fd, []byte("two"))
	if err := errors.Join(err1, err2, err3, unix.Close(fd)); err != nil {
		t.Fatal(err)
	}
}

func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}
