package fusefs

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// foldingFixture mounts a directory of a volume that ignores case and normalises names.
func foldingFixture(t *testing.T, change func(*Options)) *fixture {
	t.Helper()
	dir, _ := foldingVolume(t)
	source, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { source.Close() })
	return mountTest(t, func(o *Options) {
		o.Source.Close()
		o.Source = source
		if change != nil {
			change(o)
		}
	})
}

// vanishes waits until a name cannot be found any more. The kernel is notified of a removal only
// after the answer to the request that removed the name.
func (f *fixture) vanishes(name string) {
	f.t.Helper()
	for range 200 {
		if _, err := os.Lstat(filepath.Join(f.dir, name)); os.IsNotExist(err) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	f.t.Errorf("%s is still there", name)
}

func (f *fixture) names(want ...string) {
	f.t.Helper()
	all, err := os.ReadDir(f.dir)
	if err != nil {
		f.t.Fatal(err)
	}
	var got []string
	for _, e := range all {
		got = append(got, e.Name())
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		f.t.Errorf("names %q, not %q", got, want)
	}
}

// done returns the changes that were reported to the Observer.
func (f *fixture) done() string {
	var out []string
	for _, c := range f.rec.take() {
		if strings.HasPrefix(c, "done ") || strings.HasPrefix(c, "closed ") {
			out = append(out, c)
		}
	}
	return strings.Join(out, "\n")
}

const (
	composed   = "caf\u00e9"
	decomposed = "cafe\u0301"
)

// A file that is looked up, written, linked, replaced and removed by several spellings is always
// reported under the volume's spelling.
func TestOneNameOfManySpellings(t *testing.T) {
	f := foldingFixture(t, nil)
	at := func(name string) string { return filepath.Join(f.dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	told := func(want ...string) {
		t.Helper()
		if got := f.done(); got != strings.Join(want, "\n") {
			t.Errorf("told\n%s\nnot\n%s", got, strings.Join(want, "\n"))
		}
	}
	f.vanishes("README") // the kernel must not remember that this name is absent
	must(os.WriteFile(at("readme"), []byte("one"), 0o644))
	told(`done create readme`, `closed create readme "one"`)
	must(os.WriteFile(at("README"), []byte("two"), 0o644))
	told(`closed write readme "two"`)
	a, err := os.Stat(at("readme"))
	must(err)
	b, err := os.Stat(at("ReadMe"))
	must(err)
	if !os.SameFile(a, b) {
		t.Error("two spellings, two files")
	}
	must(os.WriteFile(at(composed), []byte("c"), 0o644))
	must(os.WriteFile(at(decomposed), []byte("d"), 0o644))
	told("done create "+composed, "closed create "+composed+` "c"`, "closed write "+composed+` "d"`)
	f.names("readme", composed)

	must(os.Mkdir(at("Src"), 0o755))
	must(os.WriteFile(at("SRC/a.go"), []byte("a"), 0o644))
	must(os.WriteFile(at("src/A.go"), []byte("b"), 0o644))
	told("done mkdir Src", "done create Src/a.go", `closed create Src/a.go "a"`, `closed write Src/a.go "b"`)

	must(os.Rename(at("SRC/A.GO"), at("src/b.go")))
	told("done rename Src/a.go Src/b.go")
	must(os.WriteFile(at("new"), []byte("n"), 0o644))
	f.done()
	must(os.Rename(at("NEW"), at("src/B.GO")))
	told("done rename new Src/b.go (replaced)")
	f.vanishes("new")
	if got, err := os.ReadFile(at("src/b.go")); string(got) != "n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	must(os.Link(at("Readme"), at("other")))
	must(os.Remove(at("OTHER")))
	told("done link readme other", "done unlink other")
	must(os.Remove(at("REAdme")))
	told("done unlink readme")
	f.vanishes("readme")
	f.vanishes("README")
	must(os.Remove(at(decomposed)))
	told("done unlink " + composed)
	f.vanishes(composed)
	must(os.RemoveAll(at("SRC")))
	told("done unlink Src/b.go", "done rmdir Src")
	f.names()
}

// The hidden name is hidden in every spelling.
func TestHiddenInEverySpelling(t *testing.T) {
	f := foldingFixture(t, func(o *Options) { o.Hidden = ".cachebro" })
	if err := os.Mkdir(f.src+"/.Cachebro", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".cachebro", ".CACHEBRO", ".Cachebro"} {
		if _, err := os.Lstat(filepath.Join(f.dir, name)); !os.IsNotExist(err) {
			t.Errorf("%s: %v", name, err)
		}
		if err := os.Mkdir(filepath.Join(f.dir, name), 0o755); !os.IsPermission(err) {
			t.Errorf("mkdir %s: %v", name, err)
		}
	}
	f.names()
}

// If the spelling of a name changes in the source, the new spelling is used from then on.
func TestRespelledUnderneath(t *testing.T) {
	f := foldingFixture(t, func(o *Options) { o.Outside = true })
	if err := os.WriteFile(filepath.Join(f.dir, "a"), []byte("1"), 0o644); err != nil {
		t.Fatal(err)
	}
	// On Linux rename(2) to another spelling does nothing, so use another name in between.
	for _, c := range [][2]string{{"a", "x"}, {"x", "A"}} {
		if err := os.Rename(f.src+"/"+c[0], f.src+"/"+c[1]); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Second)
	f.done()
	if out, err := exec.Command("sh", "-c", `echo 2 >"$0"`, filepath.Join(f.dir, "a")).CombinedOutput(); err != nil {
		t.Fatalf("%s %v", out, err)
	}
	if got := f.done(); got != "closed write A \"2\\n\"" {
		t.Error(got)
	}
	f.names("A")
}
