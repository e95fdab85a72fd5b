package capture

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cachebro/fusefs/sys"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/spool"

	"golang.org/x/sys/unix"
)

// The names of a file change while it is being written. At each change of its names, the present
// content becomes a version, whose author is the writer. Only content from before the first write
// has no author.
func TestNamesChangeWhileWritten(t *testing.T) {
	files := map[string]string{".gitignore": "*.log\n", ".git/HEAD": "ref: refs/heads/main\n"}
	cases := []struct {
		name   string
		change func(dir string) error // dir holds f, which is dirty, and x
		want   []string               // the wanted versions; a version without an author is in parentheses
	}{
		{"rename", func(d string) error { return os.Rename(d+"/f", d+"/g") },
			[]string{"(f old)", "f one", "g onetwo"}},
		{"rename over another", func(d string) error { return os.Rename(d+"/f", d+"/x") },
			[]string{"(f old)", "f one", "(x other)", "x onetwo"}},
		{"another renamed over it", func(d string) error { return os.Rename(d+"/x", d+"/f") },
			[]string{"(f old)", "f one", "(x other)", "f (written after its name was taken) onetwo"}}, // this process removes it, as a plan would
		{"link", func(d string) error { return os.Link(d+"/f", d+"/g") },
			[]string{"(f old)", "f one", "g onetwo"}},
		{"unlink of one of two", func(d string) error { return os.Remove(d + "/f") },
			[]string{"(f old)", "second one", "second onetwo"}}, // the version is recorded only under the newest of the two names
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
	// New files get names while they are open.
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

// A file gets a hundred names, is written to, and loses the names again. Each name is recorded as
// found at most a few times, not whenever another name changes. Recording all names at each change
// once made 12 million records for 5,000 links. One record for all names reports that the file is
// being written.
func TestManyNames(t *testing.T) {
	const names = 100
	m := mount(t, map[string]string{"0": "old"}, nil)
	name := func(i int) string { return fmt.Sprintf("%s/%d", m.dir, i) }
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := 1; i < names; i++ {
		check(os.Link(name(0), name(i)))
	}
	for i := range 10 {
		check(os.WriteFile(name(i), []byte(fmt.Sprint("text ", i)), 0o644))
		check(os.Chmod(name(i), os.FileMode(0o600+i)))
	}
	for i := 1; i < names; i++ {
		check(os.Remove(name(i)))
	}
	log := m.end()
	wantNoGaps(t, log)
	found, links, gone, writes, dirty := 0, 0, 0, 0, 0
	for _, e := range log {
		switch {
		case e.Kind == spool.KindDirty && e.Node != 0:
			dirty++
		case e.Kind != spool.KindVersion:
		case e.Op == event.OpBaseline:
			found++
		case e.Op == event.OpLink:
			links++
		case e.Op == event.OpUnlink:
			gone++
		case e.HasContent && strings.HasPrefix(e.content, "text "):
			writes++
		}
	}
	if links != names-1 || gone != names-1 || writes < 10 {
		t.Errorf("%d links, %d unlinks, %d writes in the log", links, gone, writes)
	}
	if found > 4*names {
		t.Errorf("names reported as found %d times", found)
	}
	if dirty > 40 {
		t.Errorf("%d reports that the file is written, for 10 writes and changes of the mode", dirty)
	}
}

// An ignored symbolic link has two names, and loses both. The state under each name is recorded
// before its removal, so that an undo can restore both.
func TestNamesOfIgnoredSymlink(t *testing.T) {
	m := mount(t, map[string]string{".gitignore": "*.ign\n"}, nil)
	source := m.src + "/"
	err := errors.Join(os.Symlink("nowhere", source+"a.ign"), os.Link(source+"a.ign", source+"b.ign"))
	held, err2 := unix.Open(filepath.Join(m.dir, "b.ign"), unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0) // the kernel keeps the inode
	err = errors.Join(err, err2, os.Remove(filepath.Join(m.dir, "a.ign")), os.Remove(filepath.Join(m.dir, "b.ign")), unix.Close(held))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range m.end() {
		if e.Kind == spool.KindVersion {
			got = append(got, fmt.Sprint(e.Op, " ", e.Path, " ", e.Target))
		}
	}
	want := []string{
		fmt.Sprint(event.OpBaseline, " a.ign nowhere"), fmt.Sprint(event.OpUnlink, " a.ign nowhere"),
		fmt.Sprint(event.OpBaseline, " b.ign nowhere"), fmt.Sprint(event.OpUnlink, " b.ign nowhere"),
	}
	if !slices.Equal(got, want) {
		t.Errorf("recorded %q, want %q", got, want)
	}
}

// An ignored file with two names is truncated through one name, and its mode is changed through the
// other. At that moment the file is empty only because it is being written. The empty content used
// to be recorded under the other name, and an undo left the file empty without reporting it.
func TestChmodOfFileBeingWrittenByAnotherName(t *testing.T) {
	m := mount(t, map[string]string{".gitignore": "*.ign\n", "a.ign": "first"}, nil)
	err := os.Link(m.src+"/a.ign", m.src+"/b.ign")
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(m.dir, "a.ign"), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(os.Chmod(filepath.Join(m.dir, "b.ign"), 0o600), f.Close())
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, e := range m.end() {
		if e.Kind != spool.KindVersion || e.Op != event.OpBaseline || e.Path != "b.ign" {
			continue
		}
		found = true
		if e.Reason != spool.NotRead {
			t.Errorf("b.ign is recorded with the content of %d bytes", e.Stat.Size)
		}
	}
	if !found {
		t.Error("b.ign is not recorded")
	}
}

// No scan records the state of the root, so it is recorded before its first change, also after a scan.
func TestModeOfRootBeforeFirstChange(t *testing.T) {
	m := mount(t, map[string]string{"f": "f"}, nil)
	m.c.BaselineDone(time.Now().Add(time.Hour))
	err := errors.Join(os.Chmod(m.src, 0o755), os.Chmod(m.dir, 0o700), os.Chmod(m.dir, 0o750))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range m.end() {
		if e.Kind == spool.KindVersion {
			got = append(got, fmt.Sprintf("%v %q %o", e.Op, e.Path, e.Stat.Mode&0o7777))
		}
	}
	want := []string{fmt.Sprint(event.OpBaseline, ` "" 755`), fmt.Sprint(event.OpChmod, ` "" 700`), fmt.Sprint(event.OpChmod, ` "" 750`)}
	if !slices.Equal(got, want) {
		t.Errorf("recorded %q, want %q", got, want)
	}
}

// A file is renamed out of .git over a tracked file, and one of the two has a second name. It is
// recorded as a new file and not as new content of the tracked one. Otherwise an undo would also
// change the file under its second name, or report the former content of the new file as lost.
func TestLinkedFileComesFromGit(t *testing.T) {
	m := mount(t, map[string]string{".gitignore": "*.ign\n", ".git/HEAD": "ref: refs/heads/main\n", ".git/alone": "moved", ".git/linked": "linked", ".git/third": "third", "f": "old f", "g": "old g", "h": "old h"}, nil)
	err := errors.Join(
		os.Link(m.src+"/.git/linked", m.src+"/other.ign"),
		os.Rename(m.dir+"/.git/alone", m.dir+"/f"),
		os.Rename(m.dir+"/.git/linked", m.dir+"/g"),
		os.Link(m.src+"/h", m.src+"/other"),
		os.Rename(m.dir+"/.git/third", m.dir+"/h"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range m.end() {
		if e.Kind == spool.KindVersion && slices.Contains([]string{"f", "g", "h"}, e.Path) {
			got = append(got, fmt.Sprint(e.Op, " ", e.Path, " ", e.Stat.Nlink, " ", e.content))
		}
	}
	want := []string{
		fmt.Sprint(event.OpBaseline, " f 1 old f"), fmt.Sprint(event.OpWrite, " f 1 moved"),
		fmt.Sprint(event.OpBaseline, " g 1 old g"), fmt.Sprint(event.OpUnlink, " g 1 "), fmt.Sprint(event.OpCreate, " g 2 linked"),
		fmt.Sprint(event.OpBaseline, " h 2 old h"), fmt.Sprint(event.OpBaseline, " h 2 "), fmt.Sprint(event.OpUnlink, " h 2 "), fmt.Sprint(event.OpCreate, " h 1 third"),
	}
	if !slices.Equal(got, want) {
		t.Errorf("recorded %q, want %q", got, want)
	}
}
