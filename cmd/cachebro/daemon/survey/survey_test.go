package survey_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"cachebro/cmd/cachebro/daemon/survey"
	"cachebro/scripts/testkit/daemontest"
	"cachebro/store"
	"cachebro/store/wire"
)

func newest(t *testing.T, p *daemontest.Project, name store.Path) store.Version {
	t.Helper()
	v, ok, err := p.Store.Current(name)
	if err != nil || !ok {
		t.Fatal(name, ok, err)
	}
	return v
}

// A scan stores changes that no event reported: a new file, its new content, its removal.
func TestLookStoresWhatItFinds(t *testing.T) {
	p := daemontest.New(t)
	look := func(want string) survey.File {
		t.Helper()
		f, err := p.Survey.Look(t.Context(), "d/a.txt")
		if err != nil {
			t.Fatal(err)
		}
		if b, err := f.Content(); err != nil || string(b) != want || !f.Known || f.Version.Blob != f.Hash {
			t.Fatalf("%q, known: %v, %v; want %q", b, f.Known, err, want)
		}
		return f
	}
	p.Write("d/a.txt", "one\n")
	first := look("one\n")
	if first.Version.Op != store.OpBaseline {
		t.Errorf("a file that was there before is %v", first.Version.Op)
	}
	if again := look("one\n"); again.Version.Seq != first.Version.Seq {
		t.Error("a file that has not changed has another version")
	}
	p.Write("d/a.txt", "another\n")
	ctx := survey.WithPlan(t.Context(), "P", store.Actor{PID: 7, Comm: "sed"})
	if _, err := p.Survey.Look(ctx, "d/a.txt"); err != nil {
		t.Fatal(err)
	}
	if v := look("another\n").Version; v.Op != store.OpSeen || v.Actor.Comm != "sed" || v.Plan != "P" {
		t.Errorf("%v by %+v, plan %q", v.Op, v.Actor, v.Plan)
	}
	p.Remove("d/a.txt")
	if _, err := p.Survey.Look(t.Context(), "d/a.txt"); !errors.Is(err, wire.ErrNotFound) {
		t.Errorf("a file that is gone: %v", err)
	}
	if v := newest(t, p, "d/a.txt"); !v.Deleted() {
		t.Errorf("%v", v.Op)
	}
}

// UpdateAll records the changes since the last complete scan: new files, changed files and removed
// files.
func TestUpdateAllTakesInWhatChanged(t *testing.T) {
	p := daemontest.New(t)
	p.Write("kept", "kept\n")
	p.Write("changed", "before\n")
	p.Write("gone/a", "a\n")
	if err := p.Survey.UpdateAll(t.Context()); err != nil || p.Store.Seq() != 0 {
		t.Fatalf("before the first look: %d versions, %v", p.Store.Seq(), err)
	}
	p.LookAtAll()
	if st := p.Survey.Progress(); !st.Done || st.Files != 3 {
		t.Fatalf("%+v", st)
	}
	before := newest(t, p, "kept")
	p.Write("changed", "after, and longer\n")
	p.Write("new", "new\n")
	p.Remove("gone")
	if err := p.Survey.UpdateAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v := newest(t, p, "kept"); v.Seq != before.Seq {
		t.Error("a file that nobody changed has a new version")
	}
	if v := newest(t, p, "new"); v.Op != store.OpCreate {
		t.Errorf("a file made since is %v", v.Op)
	}
	if b, err := p.Store.Content(newest(t, p, "changed").Blob); err != nil || string(b) != "after, and longer\n" {
		t.Errorf("%q, %v", b, err)
	}
	if !newest(t, p, "gone").Deleted() || !newest(t, p, "gone/a").Deleted() {
		t.Error("what is gone is still there")
	}
	var times []int64
	vs, err := p.Store.Since(before.Seq, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range vs {
		times = append(times, v.Time)
	}
	if !slices.IsSorted(times) {
		t.Errorf("not in order: %v", times)
	}
}

// A complete scan goes through tree and log in parallel. It finds existing names that sort between
// a directory and its subtree, and notices missing names, even if they fill more than one page of
// the log.
func TestUpdateAllGoesThroughTheLogInOrder(t *testing.T) {
	p := daemontest.New(t)
	names := []string{"a-b/y", "a.b", "a/x", "a/x.d/z", "a/x-", "a0", "b/c/d/e", "b/c.d", "b/c/d.e"}
	for i := range 2100 {
		names = append(names, fmt.Sprintf("many/%d", i))
	}
	for _, name := range names {
		p.Write(name, name)
	}
	p.LookAtAll()
	if err := p.Survey.UpdateAll(t.Context()); err != nil { // directories changed while they were filled
		t.Fatal(err)
	}
	slices.Sort(names)
	for i := 0; i < len(names); i += 1 + i/20*30 {
		before := p.Store.Seq()
		if err := p.Survey.UpdateAll(t.Context()); err != nil || p.Store.Seq() != before {
			t.Fatalf("%d versions of what nobody changed, %v", p.Store.Seq()-before, err)
		}
		p.Remove(names[i])
		if err := p.Survey.UpdateAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		vs, err := p.Store.Since(before, 100)
		if err != nil {
			t.Fatal(err)
		}
		gone := 0
		for _, v := range vs {
			if v.Deleted() {
				gone++
			}
		}
		if gone != 1 || !newest(t, p, store.Path(names[i])).Deleted() {
			t.Fatalf("%s was removed, and of %d versions %d say so", names[i], len(vs), gone)
		}
	}
}

// If nothing is mounted and the request does not allow a look at the files, the answer says that it
// may be out of date.
func TestRefreshSaysWhatMayBeMissing(t *testing.T) {
	p := daemontest.New(t)
	p.Write("a", "a\n")
	if w := p.Survey.Refresh(t.Context(), true); w == "" {
		t.Error("nobody looked, and nothing is said")
	}
	if w := p.Survey.RefreshWhole(t.Context()); w != "" {
		t.Error(w)
	}
	if v := newest(t, p, "a"); v.Op != store.OpBaseline {
		t.Errorf("%v", v.Op)
	}
}

// Right after a mount, a plan waits for the scan that finds what changed while nothing was mounted.
// It used to be made from the old log, so that its steps failed, or put files into a directory that
// somebody had made since.
func TestUpdateAllWaitsForTheScanOfAMount(t *testing.T) {
	p := daemontest.New(t)
	for i := range 300 {
		p.Write(fmt.Sprintf("d/%d", i), "a\n")
	}
	p.LookAtAll()
	p.Remove("d")
	attach(t, p)
	if err := p.Survey.UpdateAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !newest(t, p, "d").Deleted() || !newest(t, p, "d/7").Deleted() {
		t.Error("what is gone is still there")
	}
}

func attach(t *testing.T, p *daemontest.Project) {
	t.Helper()
	dir, err := os.Open(p.Root)
	if err != nil {
		t.Fatal(err)
	}
	params, err := json.Marshal(wire.Attach{PID: os.Getpid(), Mountpoint: p.Root})
	if err != nil {
		t.Fatal(err)
	}
	do := p.Survey.Handlers()[wire.MAttach]
	if _, _, err := do(t.Context(), &wire.Request{Method: wire.MAttach, Params: params, Files: []*os.File{dir}}); err != nil {
		t.Fatal(err)
	}
}

// An imported history was never scanned. A restore right after the first mount used to find nothing to
// do in an empty directory, because the history had all the files.
func TestUpdateAllWaitsForTheFirstScanOfAnImportedHistory(t *testing.T) {
	p := daemontest.New(t)
	var imported []store.Change
	for i := range 300 {
		imported = append(imported, store.Change{Op: store.OpWrite, Path: store.Path(fmt.Sprintf("d/%d", i)), HasContent: true, Content: []byte("a\n"), Stat: store.Stat{Mode: 0o100644, Size: 2}, Time: int64(i + 1)})
	}
	if _, err := p.Store.Apply(t.Context(), imported, nil); err != nil {
		t.Fatal(err)
	}
	attach(t, p)
	if !p.Survey.Outdated() {
		t.Error("the history counts as checked before the scan")
	}
	if err := p.Survey.UpdateAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !newest(t, p, "d/7").Deleted() || p.Survey.Outdated() {
		t.Error("what is not there is still in the log")
	}
}
