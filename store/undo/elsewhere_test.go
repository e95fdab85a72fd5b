package undo

import (
	"crypto/sha256"
	"maps"
	"slices"
	"testing"

	"cachebro/scripts/testkit/storetest"
	"cachebro/store"

	"golang.org/x/sys/unix"
)

func fileSide(mode uint32, text string) Side {
	return Side{Mode: unix.S_IFREG | mode, Size: int64(len(text)), Blob: sha256.Sum256([]byte(text))}
}

// Changes that were made in another tree, such as a fork, are made here wherever this tree still
// has the state from before those changes. A file takes the name of a directory that both trees
// have emptied. Texts that both changed are merged. Only the mode bits that the other tree changed
// are changed here, and users without any permission here get none.
func TestChangesFromElsewhere(t *testing.T) {
	c := newScene(t)
	tr := c.tr
	c.as("", "vim", "", 5).do(
		tr.Mkdir("dir", storetest.DirMode), tr.Write("dir/x", "x\n"), tr.Write("both", "1\n2\n3\n"), tr.Write("clash", "1\n"),
		tr.Write("run", "#!\n"), tr.Chmod("run", 0o600), tr.Mkdir("full", storetest.DirMode), tr.Write("full/mine", "mine\n"),
		tr.Write("full/theirs", "theirs\n"), tr.Mkdir("gone", storetest.DirMode), tr.Write("gone/x", "x\n"))
	c.as("", "vim", "", 6).do(tr.Write("both", "1\n2\nthree\n"), tr.Write("clash", "one\n"), tr.Write("run", "#!here\n"))
	dir := Side{Mode: storetest.DirMode}
	file := func(mode uint32, text string) *Side { s := fileSide(mode, text); return &s }
	transfer := Transfer{Held: true, Merge: true, Files: []Elsewhere{
		{Path: "dir", Was: &dir, Want: fileSide(0o644, "dir\n")},
		{Path: "dir/x", Was: file(0o644, "x\n")},
		{Path: "both", Was: file(0o644, "1\n2\n3\n"), Want: fileSide(0o644, "one\n2\n3\n")},
		{Path: "clash", Was: file(0o644, "1\n"), Want: fileSide(0o644, "eins\n")},
		{Path: "run", Was: file(0o644, "#!\n"), Want: fileSide(0o755, "#!\n")},
		{Path: "full", Was: &dir},
		{Path: "full/theirs", Was: file(0o644, "theirs\n")},
		{Path: "gone", Was: &dir},
		{Path: "gone/x", Was: file(0o644, "x\n")},
		{Path: "new/empty", Was: &Side{}, Want: fileSide(0o644, "")},
		{Path: "clash/in", Was: &Side{}, Want: fileSide(0o644, "")}, // cannot be made, and used not to be named
	}}
	wanted, err := Planner{Store: c.s}.Wanted(transfer)
	if err != nil {
		t.Fatal(err)
	}
	var sizes []int64
	for _, text := range []string{"one\n2\n3\n", "eins\n"} {
		size, is := wanted[sha256.Sum256([]byte(text))]
		if !is {
			t.Errorf("%q is not wanted", text)
		}
		sizes = append(sizes, size)
		transfer.Contents = append(transfer.Contents, []byte(text))
	}
	if len(wanted) != 2 || !slices.Equal(sizes, []int64{8, 5}) {
		t.Errorf("wanted %v", wanted)
	}
	p, err := Planner{Store: c.s}.Elsewhere(store.PlanUndo, transfer)
	if err != nil {
		t.Fatal(err)
	}
	named := map[store.Path]string{}
	for _, x := range slices.Concat(p.Conflicts, p.Lost) {
		named[x.Path] = x.Why
	}
	if want := map[store.Path]string{"clash": "it was also changed here", "clash/in": "its directory was replaced by something else", "full": "the directory holds other files"}; !maps.Equal(named, want) {
		t.Errorf("named %v, want %v", named, want)
	}
	p.Made[sha256.Sum256([]byte("dir\n"))], p.Made[sha256.Sum256(nil)] = []byte("dir\n"), []byte{} // the client has these contents
	c.carry(p)
	c.want("dir", "dir\n")
	c.want("both", "one\n2\nthree\n")
	c.want("new/empty", "")
	if tr.Files["full/theirs"] != nil || tr.Files["gone"] != nil {
		t.Errorf("left: %+v", tr.Files)
	}
	c.want("run", "#!here\n")
	if mode := tr.Files["run"].Mode & 0o777; mode != 0o700 {
		t.Errorf("run has the mode %o", mode)
	}
}

// Two names of one file here are two files in a fork. If the content changes by one name and the mode
// by the other, the file gets both. It used to get only the change by the later name.
func TestChangesByTwoNamesFromElsewhere(t *testing.T) {
	for _, edited := range []store.Path{"a", "b"} {
		c := newScene(t)
		tr := c.tr
		c.as("", "vim", "", 5).do(tr.Write("a", "1\n"), tr.Link("a", "b"))
		was := fileSide(0o644, "1\n")
		files := []Elsewhere{{Path: "a", Was: &was, Want: fileSide(0o600, "1\n")}, {Path: "b", Was: &was, Want: fileSide(0o600, "1\n")}}
		for i := range files {
			if files[i].Path == edited {
				files[i].Want = fileSide(0o644, "2\n")
			}
		}
		p, err := Planner{Store: c.s}.Elsewhere(store.PlanUndo, Transfer{Merge: true, Files: files, Contents: [][]byte{[]byte("2\n")}})
		if err != nil {
			t.Fatal(err)
		}
		c.carry(p)
		c.want("a", "2\n")
		if mode := tr.Files["b"].Mode & 0o777; mode != 0o600 {
			t.Errorf("%s was edited: the mode is %o", edited, mode)
		}
	}
}

// If the two files have different new contents, the second is a conflict. The later one used to win
// without a word.
func TestContentsByTwoNamesFromElsewhere(t *testing.T) {
	c := newScene(t)
	c.as("", "vim", "", 5).do(c.tr.Write("a", "1\n"), c.tr.Link("a", "b"))
	was := fileSide(0o644, "1\n")
	p, err := Planner{Store: c.s}.Elsewhere(store.PlanUndo, Transfer{Merge: true, Contents: [][]byte{[]byte("2\n"), []byte("3\n")}, Files: []Elsewhere{
		{Path: "a", Was: &was, Want: fileSide(0o644, "2\n")}, {Path: "b", Was: &was, Want: fileSide(0o644, "3\n")},
	}})
	if err != nil || len(p.Conflicts) != 1 || p.Conflicts[0].Path != "b" {
		t.Fatalf("%v, %+v", err, p)
	}
	c.carry(p)
	c.want("b", "2\n")
}

// If a file was changed before anything was known about it, a listing of an earlier moment has the file,
// with the reason why its content is unknown. The file used to be left out, so a fork of that moment
// silently lacked it.
func TestListOfWhatNobodySaw(t *testing.T) {
	s := storetest.Fresh(t)
	first := storetest.Apply(t, s, storetest.Closed(store.OpCreate, "a", "a\n"))
	storetest.Apply(t, s, storetest.Closed(store.OpWrite, "b", "b\n"))
	all, found, err := Planner{Store: s}.List("", first[0].Seq)
	if err != nil || !found || len(all) != 2 {
		t.Fatal(all, found, err)
	}
	if all[1].Path != "b" || all[1].Why != "what was there before is not known" {
		t.Errorf("%+v", all[1])
	}
}
