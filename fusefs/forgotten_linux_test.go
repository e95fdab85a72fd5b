package fusefs

import (
	"os"
	"slices"
	"testing"

	"cachebro/fusefs/sys"
	"cachebro/store/leaf/event"

	"golang.org/x/sys/unix"
)

// The kernel forgets a directory that contains a second name of a file, and looks it up again. The
// overlay used to take it for another directory. When the second name was then removed, the overlay
// removed it from the new directory, and the file kept it in the old one. A later change of the
// file was recorded under that removed name, or under a path that was outdated because a parent
// directory had been renamed.
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

// A directory is still known, as under an inotify watch, after the kernel has forgotten the directory
// above it. Then another server takes over. That server used to record changes of a file in the
// directory under a path that lacked its beginning. When the directory was forgotten too, the server
// panicked while it held a lock, and the mount stood still.
func TestTakeOverOfNameInForgottenDirectory(t *testing.T) {
	dir := t.TempDir()
	ledger, err := NewLedger()
	if err != nil {
		t.Fatal(err)
	}
	defer ledger.Close()
	serve := func(takeOver bool) *overlay {
		source, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		o, err := newOverlay(&Options{Source: source, Ledger: ledger, TakeOver: takeOver})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	find := func(o *overlay, parent *inode, name string, ino uint64, mode uint32) *inode {
		n, _ := o.ref(parent, name, &sys.Stat{Stat: event.Stat{Dev: 1, Ino: ino, Birth: 7, Mode: mode}})
		return n
	}
	first := serve(false)
	up := find(first, first.root.node, "up", 2, unix.S_IFDIR)
	d := find(first, up, "d", 3, unix.S_IFDIR)
	find(first, first.root.node, "a", 4, unix.S_IFREG)
	find(first, d, "b", 4, unix.S_IFREG)
	first.Forget(up.id, 1)
	first.ledger.head.initLen = 1 // as after the handshake with the kernel
	first.close()

	o := serve(true)
	defer o.close()
	o.restore(nil)
	a, d := o.table.find(key{1, 4, 7}), o.table.find(key{1, 3, 7})
	if is := a.Paths(0); !slices.Equal(is, []string{"a"}) {
		t.Errorf("the names are %q", is)
	}
	o.Forget(d.id, 1)
	find(o, find(o, find(o, o.root.node, "up", 2, unix.S_IFDIR), "d", 3, unix.S_IFDIR), "b", 4, unix.S_IFREG)
	if is := a.Paths(0); !slices.Equal(is, []string{"up/d/b", "a"}) {
		t.Errorf("the names are %q after b was looked up", is)
	}
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
