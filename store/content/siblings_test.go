package content_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cachebro/store"
	"cachebro/store/content"
	"cachebro/store/space"

	"golang.org/x/sys/unix"
)

// family opens n stores of worktrees of one repository. Their directories sort in the order of
// the stores.
func family(t *testing.T, n int, o Options) []*Store {
	t.Helper()
	base := t.TempDir()
	all := make([]*Store, n)
	for i := range n {
		all[i] = open(t, familyDir(base, i), familyOptions(base, n, i, o))
	}
	return all
}

func familyDir(base string, i int) string {
	return filepath.Join(base, fmt.Sprintf("%c-state", 'a'+i), "store")
}

func familyOptions(base string, n, i int, o Options) Options {
	o.Siblings = func() []Sibling {
		var out []Sibling
		for j := range n {
			if j != i {
				out = append(out, Sibling{Dir: familyDir(base, j), Root: fmt.Sprintf("/w/%c", 'a'+j)})
			}
		}
		return out
	}
	return o
}

// checkout returns the contents of a checkout.
func checkout(files int) []Change {
	rnd := rand.New(rand.NewPCG(11, 11))
	var cs []Change
	for i := range files {
		cs = append(cs, file(OpCreate, Path(fmt.Sprintf("dir%d/f%d.go", i%5, i)), string(noise(rnd, 40+i))))
	}
	return append(cs, file(OpCreate, "empty", ""))
}

func holds(t *testing.T, s *Store, cs []Change) {
	t.Helper()
	s.Contents().Forget()
	for _, c := range cs {
		if got := contentOf(t, s, c.Path); got != string(c.Content) {
			t.Fatalf("%s: %q has other bytes", s.Dir(), c.Path)
		}
	}
	checked(t, s)
}

func packNames(s *Store) []string {
	var names []string
	for name, links := range s.Contents().PackFiles() {
		names = append(names, fmt.Sprint(filepath.Base(name), links))
	}
	slices.Sort(names)
	return names
}

func adopts(t *testing.T, s *Store) int {
	t.Helper()
	n, err := s.Contents().Adopt(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// settled does what Collect does from time to time to share contents with siblings.
func settled(t *testing.T, s *Store) content.Report {
	t.Helper()
	s.Contents().Lock()
	defer s.Contents().Unlock()
	var r content.Report
	if err := s.Contents().EndOffersNow(context.Background(), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// Two further worktrees use the contents that the first has packed, and store none of them again.
// They lose nothing when the first one's store is removed.
func TestSiblingsShare(t *testing.T) {
	ss := family(t, 3, testOptions())
	cs := checkout(60)
	apply(t, ss[0], cs...)
	if n := adopts(t, ss[1]); n != 0 {
		t.Fatalf("%d contents on offer before anything was packed", n)
	}
	repacked(t, ss[0])
	for _, s := range ss[1:] {
		if n := adopts(t, s); n != len(cs) {
			t.Fatalf("%d contents on offer, want %d", n, len(cs))
		}
		apply(t, s, cs...)
		if st := s.Stats(); s.Stats().Loose != 0 || st.Blobs != uint64(len(cs)) {
			t.Fatalf("%d bytes are stored once more, %d contents", s.Stats().Loose, st.Blobs)
		}
		holds(t, s, cs)
	}
	all, elsewhere := space.Shared(ss[2].Dir())
	if all == 0 || elsewhere < all/2 || elsewhere > all*3/4 {
		t.Fatalf("%d bytes shared, %d of them counted elsewhere", all, elsewhere)
	}
	// The three stores together report the space that is really allocated, with shared files
	// counted once.
	real, counted := int64(0), int64(0)
	seen := map[uint64]bool{}
	for _, s := range ss {
		counted += space.Measure(s.Dir()).Used
		err := filepath.WalkDir(s.Dir(), func(p string, d os.DirEntry, err error) error {
			var st unix.Stat_t
			if err == nil && !d.IsDir() && unix.Lstat(p, &st) == nil && !seen[st.Ino] {
				seen[st.Ino] = true
				real += st.Blocks * 512
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if d := real - counted; d < -real/20 || d > real/20 {
		t.Fatalf("%d bytes are allocated, %d counted", real, counted)
	}
	u, err := ss[1].DU(context.Background())
	if err != nil || u.Shared != all || u.Contents < all || u.Disk < u.Contents {
		t.Fatalf("%+v, %v; %d shared", u, err, all)
	}

	apply(t, ss[1], file(OpWrite, cs[0].Path, "something else"))
	if err := ss[0].Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Dir(ss[0].Dir())); err != nil {
		t.Fatal(err)
	}
	holds(t, ss[1], cs[1:])
	if err := ss[1].Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, ss[1].Dir(), familyOptions(filepath.Dir(filepath.Dir(ss[1].Dir())), 3, 1, testOptions()))
	holds(t, again, cs[1:])
	if _, err := again.Prune(context.Background(), 1, ""); err != nil {
		t.Fatal(err)
	}
	holds(t, again, cs[1:])
	holds(t, ss[2], cs)
}

// An adopted file that is never used is removed when the offers end, even if the store was closed
// in between. A file that is used stays. Once the sibling is gone, this store removes the waste in
// the file.
func TestOffersEnd(t *testing.T) {
	ss := family(t, 2, testOptions())
	cs := checkout(60)
	apply(t, ss[0], cs...)
	repacked(t, ss[0])
	b := ss[1]
	adopts(t, b)
	if len(b.Contents().PackFiles()) != 1 {
		t.Fatalf("%v", packNames(b))
	}
	settled(t, b)
	_, any := b.Contents().Offered(Hash{})
	if names := packNames(b); len(names) != 0 || any {
		t.Fatalf("%v remain", names)
	}
	adopts(t, b)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b = open(t, b.Dir(), familyOptions(filepath.Dir(filepath.Dir(b.Dir())), 2, 1, testOptions()))
	settled(t, b)
	if names := packNames(b); len(names) != 0 {
		t.Fatalf("%v remain after a restart", names)
	}

	adopts(t, b)
	apply(t, b, cs[:3]...)
	settled(t, b)
	if names := packNames(b); len(names) != 1 || !strings.HasSuffix(names[0], "2") {
		t.Fatalf("%v", names)
	}
	holds(t, b, cs[:3])
	// Now only this store has the file, and most of the file is waste.
	if err := os.RemoveAll(filepath.Dir(ss[0].Dir())); err != nil {
		t.Fatal(err)
	}
	settled(t, b)
	if w := framesWaste(t, b); w != 0 {
		t.Fatalf("%.0f%% of what the sibling left is waste", 100*w)
	}
	holds(t, b, cs[:3])
}

// Two stores have stored the same contents independently. Loose contents are taken from the sibling
// instead of being packed. If both have packed them, one store removes its own copy. After that
// nothing changes any more.
func TestSiblingsMeet(t *testing.T) {
	for _, packed := range []bool{false, true} {
		ss := family(t, 3, testOptions())
		cs := checkout(60)
		for _, s := range ss {
			apply(t, s, cs...)
		}
		apply(t, ss[2], file(OpCreate, "own", string(noise(rand.New(rand.NewPCG(2, 2)), 50))))
		if packed {
			for _, s := range ss {
				s.Contents().WithoutSiblings(func() { repacked(t, s) })
			}
		} else {
			for _, s := range ss {
				repacked(t, s)
			}
		}
		for range 2 {
			for _, s := range ss {
				settled(t, s)
			}
		}
		want := packNames(ss[0])
		if len(want) != 1 || !strings.HasSuffix(want[0], "3") {
			t.Fatalf("packed %v: the first has %v", packed, want)
		}
		for range 3 {
			for _, i := range []int{2, 1, 0} {
				settled(t, ss[i])
			}
		}
		for i, s := range ss {
			names := packNames(s)
			if !slices.Contains(names, want[0]) || len(names) != 1+i/2 {
				t.Fatalf("packed %v: store %d has %v, the first %v", packed, i, names, want)
			}
			holds(t, s, cs)
		}
	}
}

// A purge removes the content from this store, and reports which siblings also have it. A later
// adoption does not bring it back. A sibling that only has the pack file, and no version with the
// content, can be purged too.
func TestSiblingsPurge(t *testing.T) {
	ss := family(t, 3, testOptions())
	cs := checkout(30)
	secret := file(OpCreate, "secret", string(noise(rand.New(rand.NewPCG(8, 8)), 30)))
	apply(t, ss[0], append(cs, secret)...)
	repacked(t, ss[0])
	adopts(t, ss[1])
	apply(t, ss[1], cs...)
	settled(t, ss[1])

	p, err := ss[0].Purge(context.Background(), "secret")
	if err != nil || p.Blobs != 1 || len(p.Siblings) != 1 || p.Siblings[0].Root != "/w/b" || len(p.Others) != 1 || p.Others[0].Root != "/w/c" {
		t.Fatalf("%+v %v", p, err)
	}
	without := func(s *Store) {
		t.Helper()
		if s.Contents().Holds(hashOf(secret.Content)) {
			t.Fatal("the purged content is in a pack file")
		}
		if framesWaste(t, s) != 0 {
			t.Fatal("there is waste after a purge")
		}
		holds(t, s, cs)
	}
	without(ss[0])
	if n := adopts(t, ss[0]); n != 0 {
		t.Fatal("adopted after a purge")
	}
	settled(t, ss[0])
	without(ss[0])

	p, err = ss[1].Purge(context.Background(), "secret")
	if err != nil || p.Versions != 0 || p.Waste < int64(len(secret.Content)) {
		t.Fatalf("%+v %v", p, err)
	}
	without(ss[1])
	if _, err := ss[1].Purge(context.Background(), "secret"); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("purged twice: %v", err)
	}
	if n := adopts(t, ss[2]); n != 2*len(cs) {
		t.Fatalf("%d on offer to the third", n)
	}
	if n, _ := ss[2].Contents().Offered(hashOf(secret.Content)); n != 0 {
		t.Fatal("the purged content is on offer")
	}
}

// Only sealed files of this user that nobody else can write to are adopted. Broken data in these
// files is rejected.
func TestSiblingsFiles(t *testing.T) {
	ss := family(t, 2, testOptions())
	cs := checkout(20)
	apply(t, ss[0], cs...)
	repacked(t, ss[0])
	var path string
	for path = range ss[0].Contents().PackFiles() {
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	replace := func(b []byte, mode os.FileMode) {
		t.Helper()
		os.Remove(path)
		if err := errors.Join(os.WriteFile(path, b, 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(what string) {
		t.Helper()
		if n := adopts(t, ss[1]); n != 0 || len(ss[1].Contents().PackFiles()) != 0 {
			t.Fatalf("%s: %d on offer", what, n)
		}
	}
	replace(good, 0o620)
	refused("writable by the group")
	replace(good[:len(good)-1], 0o400)
	refused("cut off")
	broken := slices.Clone(good)
	broken[len(broken)-content.PackTrailer-3] ^= 1
	replace(broken, 0o400)
	refused("index damaged")
	os.Remove(path)
	if err := errors.Join(os.WriteFile(filepath.Join(ss[0].Dir(), "elsewhere"), good, 0o400), os.Symlink("../elsewhere", path)); err != nil {
		t.Fatal(err)
	}
	refused("symlink")

	// If the index is right but the frames are not, nothing is taken.
	broken = slices.Clone(good)
	for i := len(content.PackMagic) + 100; i < len(content.PackMagic)+1000; i++ {
		broken[i] ^= 0x55
	}
	replace(broken, 0o400)
	if n := adopts(t, ss[1]); n != len(cs) {
		t.Fatalf("%d on offer", n)
	}
	apply(t, ss[1], cs...)
	holds(t, ss[1], cs)
	repacked(t, ss[1])
	settled(t, ss[1])
	holds(t, ss[1], cs)

	// fsck gets a missing file from the sibling that has it.
	replace(good, 0o400)
	third := open(t, filepath.Join(t.TempDir(), "store"), Options{MinFree: 1, Ballast: -1,
		Siblings: func() []Sibling { return []Sibling{{Dir: ss[0].Dir()}} }})
	adopts(t, third)
	apply(t, third, cs...)
	if err := os.Remove(filepath.Join(third.Dir(), space.PacksDir, filepath.Base(path))); err != nil {
		t.Fatal(err)
	}
	c, err := third.Fsck(context.Background(), true)
	if err != nil || len(c.Problems) != 1 || len(c.Lost) != 0 {
		t.Fatalf("%+v %v", c, err)
	}
	holds(t, third, cs)
}
