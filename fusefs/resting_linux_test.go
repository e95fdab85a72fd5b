//go:build !portable

package fusefs

import (
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"cachebro/fusefs/sys"
	"cachebro/store/leaf/event"

	"golang.org/x/sys/unix"
)

// inodes returns the number of existing inodes. Stats().Inodes counts resting files as well.
func (t *table) inodes() (n int) {
	for i := range t.byID {
		t.byID[i].RLock()
		n += len(t.byID[i].m)
		t.byID[i].RUnlock()
	}
	return n
}

// A slotIndex behaves like a map, even if many hashes lead to the same cell.
func TestSlotIndex(t *testing.T) {
	for _, spread := range []uint64{1, 3, 1 << 40} {
		var x slotIndex
		hash := func(slot uint32) uint64 { return mix(uint64(slot) % spread) }
		want := map[uint32]bool{}
		rng := rand.New(rand.NewSource(int64(spread)))
		for range 20_000 {
			slot := uint32(1 + rng.Intn(400))
			if want[slot] {
				x.remove(slot, hash)
				delete(want, slot)
			} else {
				x.add(slot, hash)
				want[slot] = true
			}
			if x.used != len(want) {
				t.Fatalf("%d used, want %d", x.used, len(want))
			}
			probe := uint32(1 + rng.Intn(400))
			if got := x.find(hash(probe), func(s uint32) bool { return s == probe }); (got != 0) != want[probe] {
				t.Fatalf("spread %d: slot %d found: %d, want %v", spread, probe, got, want[probe])
			}
		}
	}
}

// Files are looked up, opened, unlinked and forgotten at the same time. Each file has exactly one
// node at any moment, and in the end the table has no entry left.
func TestRestingTable(t *testing.T) {
	file, err := NewLedger()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	l, err := newLedger(file)
	if err != nil {
		t.Fatal(err)
	}
	defer l.unmap()
	o := &overlay{}
	o.table, o.ledger = newTable(), l
	o.table.ledger = l
	root := &inode{fs: o, id: rootID, key: key{1, 1, 1}, kind: unix.S_IFDIR}
	o.table.ref(root.key, func(uint64) *inode { return root })
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewSource(int64(w)))
			held := map[uint64]uint64{} // references by node, as the kernel counts them
			defer func() {
				for id, n := range held {
					o.Forget(id, n)
				}
			}()
			for range 20_000 {
				ino := uint64(2 + rng.Intn(60))
				sx := &sys.Stat{Stat: event.Stat{Dev: 1, Ino: ino, Birth: 7, Mode: unix.S_IFREG | 0o644, Nlink: 1, Size: 5, Mtime: int64(ino), Ctime: 9}}
				name := fmt.Sprintf("file %d", ino)
				if rng.Intn(8) == 0 {
					sx.Size = 6 // the size changed, so the file no longer rests
				}
				id := o.table.rest(keyOf(sx), root, name, sx)
				if id == 0 {
					n, _ := o.table.ref(keyOf(sx), func(id uint64) *inode {
						return &inode{fs: o, id: id, key: keyOf(sx), kind: unix.S_IFREG, link: link{parent: root, name: name}}
					})
					id = n.id
				}
				held[id]++
				switch rng.Intn(4) {
				case 0:
					n := o.table.get(id)
					if n == nil || n.id != id || n.key.ino != ino || n.LastPath() != name {
						t.Errorf("node %d of %q is %+v", id, name, n)
						return
					}
					if by := o.table.find(keyOf(sx)); by != n {
						t.Errorf("two inodes of %q: %p, %p", name, n, by)
						return
					}
				case 1, 2:
					o.Forget(id, held[id])
					delete(held, id)
				}
			}
		})
	}
	wg.Wait()
	if n := o.table.count.Load(); n != 1 {
		t.Errorf("%d nodes are left besides the root", n-1)
	}
	taken := 0
	l.slots(func(uint32, uint32) { taken++ })
	if taken != 1 {
		t.Errorf("%d slots of the ledger are left besides the root's", taken-1)
	}
	for i := range o.table.byKey {
		if s := &o.table.byKey[i]; s.resting.used != 0 || s.records.chunks != nil || o.table.byID[i].resting.used != 0 {
			t.Errorf("shard %d is not empty: %d, %d, %d chunks", i, s.resting.used, o.table.byID[i].resting.used, len(s.records.chunks))
		}
	}
}

// After many files were looked up, none of them has an inode, and each takes at most 64 bytes of
// heap. With a million files, each used to take 411 bytes. When such a file is used later, it
// behaves like any other.
func TestLookedAtFilesRest(t *testing.T) {
	f := mountTest(t, nil)
	const many = 20_000
	f.under(fmt.Sprintf("mkdir d e; seq -f d/f%%g %d | xargs touch", many))
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	f.sh("find d -type f -size +1")
	each := (int64(heap()) - int64(before)) / many
	t.Logf("%d bytes of heap for each, %d of the ledger", each, int64(f.srv.fs.ledger.head.pieces.Load())*pieceSize/many)
	if each > 64 {
		t.Errorf("%d bytes of heap for each", each)
	}
	table := f.srv.fs.table
	if n, all := table.inodes(), f.srv.Stats().Inodes; n > 10 || all < many {
		t.Errorf("%d inodes, of %d that the kernel knows", n, all)
	}
	f.sh("find d -type f -size +1") // look at the files again, whether or not the kernel still has them in its cache

	f.write("d/f1", "one")
	f.sh("mv d/f2 d/g2; mv d/f3 e/; ln d/f4 e/f4; rm d/f5; echo six >>d/f6; mv d/f7 d/f8; chmod 600 d/f9; truncate -s 3 d/f10")
	got := f.under("cat d/f1 d/f6; ls d/g2 e/f3 e/f4; ls d/f2 d/f3 d/f5 d/f7 2>/dev/null || :; stat -c %a,%s d/f9 d/f10; stat -c %h d/f4")
	if want := "onesix\nd/g2\ne/f3\ne/f4\n600,0\n644,3\n2"; strings.TrimSpace(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
	f.sh("mv d dd; cat dd/f20; rm -r dd e")
	if rest, err := os.ReadDir(f.src); err != nil || len(rest) > 0 {
		t.Errorf("left: %v %v", rest, err)
	}
	eventuallyOr(func() bool { return f.srv.Stats().Inodes == 1 })
	if n := f.srv.Stats().Inodes; n != 1 {
		t.Errorf("%d inodes after all was removed", n)
	}
}

// A resting file is changed in the source, although no process was known to write there. The next
// open notices the change, reports it, and reads the present content.
func TestRestingChangedUnderneath(t *testing.T) {
	f := mountTest(t, nil)
	f.under("printf old >a")
	f.sh("test -s a")
	if f.srv.fs.table.inodes() != 1 {
		t.Fatal("it does not rest")
	}
	if err := os.WriteFile(filepath.Join(f.src, "a"), []byte("newer"), 0o644); err != nil {
		t.Fatal(err)
	}
	f.sh("cat a >/dev/null")
	f.want(t, "outside a 3 -> 5", "opened a")
	eventuallyOr(func() bool { return f.read("a") == "newer" })
	if got := f.read("a"); got != "newer" {
		t.Errorf("read %q", got)
	}
}

// Files that rest when the server is killed keep their identity in the next server, even under new
// names, and also in the server after that.
func TestTakeOverResting(t *testing.T) {
	h := newHeirs(t)
	sh := func(script string) string {
		t.Helper()
		cmd := exec.Command("sh", "-c", `cd "$0" && exec bash -ec "$1"`, h.dir, script)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
		return string(out)
	}
	// Make the files in the source, so that the kernel only looks them up.
	src := fmt.Sprintf("/proc/self/fd/%d", h.source.Fd())
	if err := os.Mkdir(filepath.Join(src, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		if err := os.WriteFile(filepath.Join(src, "d", fmt.Sprint("f", i)), fmt.Appendf(nil, "%d\n", i), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	sh("find d -size +1")
	h.next()
	if got := sh("cat d/f17; mv d/f18 d/g18; mv d e; cat e/g18; echo more >>e/f19; cat e/f19; rm e/f20"); got != "17\n18\n19\nmore\n" {
		t.Errorf("%q", got)
	}
	sh("find e -size +1")
	h.next()
	if got := sh("cat e/g18 e/f19 e/f21; ls e | wc -l; rm -r e; ls"); got != "18\n19\nmore\n21\n199\n" {
		t.Errorf("%q", got)
	}
}
