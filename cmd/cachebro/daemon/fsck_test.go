package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cachebro/store/leaf/event"
	"cachebro/store/wire"
)

// If a pack file is missing, fsck restores the contents that the project's files still have. It used
// to record only the loss. When such a file was overwritten later, the mount did not save its
// content, because it assumed that the store had it.
func TestFsckBringsBackWhatFilesHold(t *testing.T) {
	p := newProject(t)
	p.start()
	p.attach()
	c := p.dial("cli")
	eventually(t, "baseline", func() bool { return ask[wire.Status](p, c, wire.MStatus, wire.Empty{}).Baseline.Done })
	p.through(event.OpCreate, "a.txt", "an old text\n", nil)
	p.through(event.OpWrite, "a.txt", "the present text\n", nil)
	p.through(event.OpCreate, "b.txt", "another text\n", nil)
	eventually(t, "everything is stored", func() bool { return ask[wire.Status](p, c, wire.MStatus, wire.Empty{}).Store.Versions >= 3 })
	ask[wire.StoreAnswer](p, c, wire.MStore, wire.StoreRequest{Do: "prune"})
	packs, err := filepath.Glob(filepath.Join(p.state, "store", "packs", "*"))
	if err != nil || len(packs) == 0 {
		t.Fatal(packs, err)
	}
	for _, name := range packs {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	a := ask[wire.StoreAnswer](p, c, wire.MStore, wire.StoreRequest{Do: "fsck"})
	if a.OK || !strings.Contains(a.Text, "3 versions have lost their content (2 of them restored from their files)") {
		t.Errorf("%v %s", a.OK, a.Text)
	}
	held := map[string]string{}
	for _, v := range p.log(c, wire.LogQuery{}) {
		held[string(v.Path)] += v.NoContent + ","
	}
	if held["a.txt"] != ",damaged," || held["b.txt"] != "," {
		t.Errorf("%q", held)
	}
	if a := ask[wire.StoreAnswer](p, c, wire.MStore, wire.StoreRequest{Do: "fsck"}); !a.OK {
		t.Error(a.Text)
	}
}
