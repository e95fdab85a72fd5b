package survey_test

import (
	"fmt"
	"io/fs"
	"math/rand"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cachebro/cmd/cachebro/daemon/ingest"
	"cachebro/cmd/cachebro/daemon/source"
	"cachebro/scripts/testkit/daemontest"
	"cachebro/store"
	"cachebro/store/leaf/event"
	"cachebro/store/leaf/spool"
)

// TestBesideIsLate: changes made outside of the mount are recorded a moment later, and examined a
// moment after that. Whatever has happened in between, the log finally agrees with the files. If a
// directory was renamed and another one took its name, the files of the renamed directory used to
// remain in the log.
func TestBesideIsLate(t *testing.T) {
	for range 20 {
		seed := rand.Int63()
		t.Run(fmt.Sprint(seed), func(t *testing.T) { besideIsLate(t, rand.New(rand.NewSource(seed))) })
	}
}

func besideIsLate(t *testing.T, rng *rand.Rand) {
	p := daemontest.New(t)
	for _, name := range []string{"s", "t", "d/s", "d/deep/er"} {
		p.Write(name, name)
	}
	p.LookAtAll()
	o := &others{t: t, p: p, rng: rng}
	for range 100 {
		for range 1 + rng.Intn(3) { // mountd reports late
			o.change()
		}
		o.record()
		if rng.Intn(4) > 0 {
			continue // the daemon examines late, too
		}
		p.Survey.RecordBypassed(t.Context(), o.told, o.apply)
		o.told = nil
		if tree, log := o.tree(), o.log(); !slices.Equal(tree, log) {
			t.Fatalf("tree: %q\nlog:  %q\n%s", tree, log, strings.Join(o.did, "\n"))
		}
	}
}

// TestBesideOfUnknown: the history does not have the files of an ignored directory. The directory
// becomes tracked, and somebody then changes such a file outside of the mount. The file must not
// count as created, because an undo would remove it. A file that is reported as new counts as
// created.
func TestBesideOfUnknown(t *testing.T) {
	p := daemontest.New(t)
	p.LookAtAll()
	o := &others{t: t, p: p}
	for name, op := range map[string]event.Op{"touched": event.OpOutside, "made": event.OpCreate} {
		o.must(os.WriteFile(o.at(name), []byte(name), 0o644))
		o.event(op, name, "")
	}
	o.record()
	p.Survey.RecordBypassed(t.Context(), o.told, o.apply)
	for name, want := range map[store.Path]store.Op{"touched": store.OpBaseline, "made": store.OpCreate} {
		v, found, err := p.Store.Current(name)
		if err != nil || !found || v.Op != want {
			t.Errorf("%s: operation %v, want %v (%v)", name, v.Op, want, err)
		}
	}
}

// TestBesideMadeAndWritten: a file that is written after the record that reports it as new still
// counts as created, so an undo removes it.
func TestBesideMadeAndWritten(t *testing.T) {
	p := daemontest.New(t)
	p.LookAtAll()
	o := &others{t: t, p: p}
	o.must(os.WriteFile(o.at("a"), []byte("one\n"), 0o644))
	o.event(event.OpCreate, "a", "")
	o.record()
	o.must(os.WriteFile(o.at("a"), []byte("one, two\n"), 0o644))
	o.event(event.OpOutside, "a", "")
	o.record()
	p.Survey.RecordBypassed(t.Context(), o.told, o.apply)
	v, found, err := p.Store.Current("a")
	if err != nil || !found || v.Op != store.OpCreate || v.Stat.Size != 9 {
		t.Errorf("operation %v, %d bytes (%v)", v.Op, v.Stat.Size, err)
	}
}

// TestBesideBeforeItsDirectory: the record of a file may precede the record of its new directory.
// The directory then used to count as an old one, so an undo did not remove it.
func TestBesideBeforeItsDirectory(t *testing.T) {
	p := daemontest.New(t)
	p.LookAtAll()
	o := &others{t: t, p: p}
	o.must(os.MkdirAll(o.at("d/e"), 0o755))
	o.must(os.WriteFile(o.at("d/e/a"), nil, 0o644))
	o.event(event.OpCreate, "d/e/a", "")
	o.event(event.OpMkdir, "d", "")
	o.event(event.OpMkdir, "d/e", "")
	o.record()
	p.Survey.RecordBypassed(t.Context(), o.told, o.apply)
	var last uint64
	for _, name := range []store.Path{"d", "d/e", "d/e/a"} {
		v, found, err := p.Store.Current(name)
		if err != nil || !found || v.Op == store.OpBaseline || v.Seq <= last {
			t.Errorf("%s: operation %v, number %d after %d (%v)", name, v.Op, v.Seq, last, err)
		}
		last = v.Seq
	}
}

// TestBesideBeforeItsRename: the record of a write may already use the new name of a directory
// whose rename has a later record. The file must not count as new.
func TestBesideBeforeItsRename(t *testing.T) {
	p := daemontest.New(t)
	p.Write("d/a", "one\n")
	p.LookAtAll()
	o := &others{t: t, p: p}
	o.must(os.WriteFile(o.at("d/a"), []byte("one, two\n"), 0o644))
	o.must(os.Rename(o.at("d"), o.at("f")))
	o.event(event.OpOutside, "f/a", "")
	o.event(event.OpRename, "d", "f")
	o.record()
	p.Survey.RecordBypassed(t.Context(), o.told, o.apply)
	versions, err := p.Store.History("f/a", false)
	o.must(err)
	found := func(v store.Version) bool { return v.Op == store.OpBaseline }
	if len(versions) == 0 || slices.ContainsFunc(versions, found) {
		t.Errorf("versions of f/a: %+v", versions)
	}
	if tree, log := o.tree(), o.log(); !slices.Equal(tree, log) {
		t.Errorf("tree: %q\nlog:  %q", tree, log)
	}
}

// TestBesideUnknownDirectoryRenamed: a directory is renamed before it is in the log, and a file in
// it is recorded under the new name first. The files that were recorded under the old name used to
// be missing from the log.
func TestBesideUnknownDirectoryRenamed(t *testing.T) {
	p := daemontest.New(t)
	p.Write("s", "s\n")
	p.LookAtAll()
	o := &others{t: t, p: p}
	o.mkdir("e")
	o.must(os.Rename(o.at("s"), o.at("e/b")))
	o.event(event.OpRename, "s", "e/b")
	o.record()
	o.must(os.WriteFile(o.at("e/a"), nil, 0o644))
	o.event(event.OpCreate, "e/a", "")
	o.must(os.Rename(o.at("e"), o.at("f")))
	o.resolve("e", "f")
	o.event(event.OpRename, "e", "f")
	o.mkdir("e")
	o.record()
	p.Survey.RecordBypassed(t.Context(), o.told[1:], o.apply) // the record of the first mkdir came too late
	if tree, log := o.tree(), o.log(); !slices.Equal(tree, log) {
		t.Errorf("tree: %q\nlog:  %q", tree, log)
	}
}

// others represents processes that work outside of the mount. It also makes the records that mountd
// would make of their changes.
type others struct {
	t      *testing.T
	p      *daemontest.Project
	rng    *rand.Rand
	did    []string
	events []spool.Record // events that mountd has not seen yet
	told   []ingest.Bypass
}

func (o *others) at(name string) string { return filepath.Join(o.p.Root, name) }

func (o *others) is(name string) (fi fs.FileInfo, there bool) {
	fi, err := os.Lstat(o.at(name))
	return fi, err == nil
}

func (o *others) event(op event.Op, name, to string) {
	o.did = append(o.did, fmt.Sprint(op, " ", name, " ", to))
	o.events = append(o.events, spool.Record{Kind: spool.KindBeside, Op: op, Path: name, Path2: to})
}

func (o *others) must(err error) {
	o.t.Helper()
	if err != nil {
		o.t.Fatal(err)
	}
}

// change makes a random change, if something can be changed.
func (o *others) change() {
	files := []string{"s", "t", "d/s", "a", "b", "d/a", "e/a", "e/b", "d/deep/er"}
	dirs := []string{"d", "e", "d/deep", "f"}
	name, other := files[o.rng.Intn(len(files))], files[o.rng.Intn(len(files))]
	one, two := dirs[o.rng.Intn(len(dirs))], dirs[o.rng.Intn(len(dirs))]
	fi, there := o.is(name)
	_, dirThere := o.is(one)
	switch o.rng.Intn(7) {
	case 0, 1:
		if there && fi.IsDir() {
			return
		}
		o.mkdir(path.Dir(name))
		o.must(os.WriteFile(o.at(name), fmt.Appendf(nil, "%d", o.rng.Int()), 0o644))
		o.event(event.OpOutside, name, "")
	case 2:
		if there {
			o.remove(name)
		}
	case 3:
		if there && name != other {
			o.mkdir(path.Dir(other))
			o.must(os.Rename(o.at(name), o.at(other)))
			o.event(event.OpRename, name, other)
		}
	case 4:
		_, taken := o.is(two)
		_, parent := o.is(path.Dir(two))
		if dirThere && !taken && parent && !strings.HasPrefix(two+"/", one+"/") {
			o.must(os.Rename(o.at(one), o.at(two)))
			if o.rng.Intn(2) == 0 {
				o.resolve(one, two)
			}
			o.event(event.OpRename, one, two)
			if o.rng.Intn(2) == 0 {
				o.mkdir(one)
			}
		}
	case 5:
		o.mkdir(one)
	case 6:
		if dirThere {
			o.remove(one)
		}
	}
}

func (o *others) mkdir(name string) {
	if _, there := o.is(name); there || name == "." {
		return
	}
	o.mkdir(path.Dir(name))
	o.must(os.Mkdir(o.at(name), 0o755))
	o.event(event.OpMkdir, name, "")
}

func (o *others) remove(name string) {
	entries, _ := os.ReadDir(o.at(name))
	for _, e := range entries {
		o.remove(path.Join(name, e.Name()))
	}
	o.must(os.Remove(o.at(name)))
	o.event(event.OpOutside, name, "")
}

// resolve puts the new name of a directory into the events that mountd has not seen yet. By then,
// mountd may find the directory only under that name.
func (o *others) resolve(from, to string) {
	for i := range o.events {
		for _, p := range []*string{&o.events[i].Path, &o.events[i].Path2} {
			if rest, below := strings.CutPrefix(*p, from+"/"); below {
				*p = to + "/" + rest
			}
		}
	}
}

// record makes the records of what has happened.
func (o *others) record() {
	root, err := os.Open(o.p.Root)
	o.must(err)
	defer root.Close()
	for _, e := range o.events {
		e.Time = time.Now().UnixNano()
		name := e.Path
		if e.Path2 != "" {
			name = e.Path2
		}
		e.Stat, _, _ = source.LstatBeneath(root, name)
		o.told = append(o.told, ingest.Bypass{Record: &e})
	}
	o.events = nil
}

func (o *others) apply(cs []store.Change) bool {
	_, err := o.p.Store.Apply(o.t.Context(), cs, nil)
	o.must(err)
	return true
}

func (o *others) tree() (all []string) {
	o.must(filepath.WalkDir(o.p.Root, func(name string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(o.p.Root, name)
		switch {
		case err != nil || rel == ".":
		case d.IsDir():
			all = append(all, rel+"/")
		default:
			var b []byte
			b, err = os.ReadFile(name)
			all = append(all, rel+" "+string(b))
		}
		return err
	}))
	slices.Sort(all)
	return all
}

func (o *others) log() (all []string) {
	o.must(o.p.Store.Live("", func(v store.Version) error {
		if v.Stat.Mode&0o170000 == 0o040000 {
			all = append(all, string(v.Path)+"/")
			return nil
		}
		b, err := o.p.Store.Content(v.Blob)
		all = append(all, string(v.Path)+" "+string(b))
		return err
	}))
	slices.Sort(all)
	return all
}
