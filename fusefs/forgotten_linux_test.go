package fusefs

import (
	"slices"
	"testing"

	"cachebro/fusefs/sys"

	"golang.org/x/sys/unix"
)

// The kernel forgets a directory that contains a second name of a file, and looks the directory up
// again. The overlay used to take it for a different directory. When the second name was then
// removed, the overlay dropped only the name in the new directory. A later change of the file was
// recorded under the removed name, or under a path that was outdated because a parent directory had
// been renamed.
func TestForgottenDirectoryKeepsNames(t *testing.T) {
	f := mountTest(t, nil)
	f.sh("echo 1 >a; mkdir -p up/d; ln a up/d/b")
	forget := func(dir string) {
		t.Helper()
		id := f.inode(dir).id
		eventually(t, "forget", func() bool {
			f.srv.fs.notifier.entry(rootID, dir)
			return f.srv.fs.table.get(id) == nil
		})
	}
	names := func(want ...string) {
		t.Helper()
		is := f.inode("a").Paths(0)
		slices.Sort(is)
		if !slices.Equal(is, want) {
			t.Errorf("the names are %q, want %q", is, want)
		}
	}
	forget("up")
	names("a", "up/d/b")
	f.sh("mv up over")
	names("a", "over/d/b")
	forget("over")
	f.sh("rm over/d/b")
	names("a")
}

func (f *fixture) inode(name string) *inode {
	f.t.Helper()
	var sx sys.Stat
	if err := sys.StatAt(unix.AT_FDCWD, f.src+"/"+name, &sx); err != nil {
		f.t.Fatal(err)
	}
	n := f.srv.fs.table.find(keyOf(&sx))
	if n == nil {
		f.t.Fatalf("%s is not known", name)
	}
	return n
}
