package reshape

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write the corpus' golden texts anew")

// minCorpus is the least number of outputs of real tools in the corpus.
const minCorpus = 300

// Each output in the corpus becomes the recorded result, or stays unchanged if none is recorded. A
// text that was only rearranged can be turned back into the original. Nothing in never.txtar is
// changed.
func TestCorpus(t *testing.T) {
	files, err := filepath.Glob("testdata/corpus/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	total, before, after := 0, 0, 0
	saved := map[Rule][2]int{} // times, bytes
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		a := txtar.Parse(raw)
		var out []txtar.File
		for i := 0; i < len(a.Files); {
			id, ok := strings.CutSuffix(a.Files[i].Name, ".cmd")
			if !ok || i+1 == len(a.Files) || a.Files[i+1].Name != id+".out" {
				t.Fatalf("%s: %s is out of place", name, a.Files[i].Name)
			}
			command, printed := strings.TrimSpace(string(a.Files[i].Data)), strings.TrimRight(string(a.Files[i+1].Data), "\n")
			out = append(out, a.Files[i], a.Files[i+1])
			i += 2
			want := ""
			if i < len(a.Files) && a.Files[i].Name == id+".want" {
				want = strings.TrimRight(string(a.Files[i].Data), "\n")
				i++
			}
			total++
			before += len(printed)
			r, ok := Output(command, printed, Options{})
			after += len(printed)
			if ok {
				after -= len(printed) - len(r.Text)
				out = append(out, txtar.File{Name: id + ".want", Data: []byte(r.Text + "\n")})
				for _, p := range r.Parts {
					s := saved[p.Rule]
					saved[p.Rule] = [2]int{s[0] + 1, s[1] + p.Saved}
				}
			}
			if !*update && (ok != (want != "") || ok && strings.TrimRight(r.Text, "\n") != want) {
				t.Errorf("%s, %s: %s\nbecame\n%s\nwant\n%s", name, id, command, r.Text, want)
			}
			if ok && strings.HasSuffix(name, "never.txtar") {
				t.Errorf("%s was touched:\n%s", command, r.Text)
			}
			if r, ok := Output(command, printed, Options{NoFold: true}); ok {
				if back, ok := invert(r); ok && back != printed {
					t.Errorf("%s: does not lead back:\n%s", command, r.Text)
				}
			}
			if _, ok := Output(command+" > file", printed, Options{}); ok {
				t.Errorf("%s, redirected: touched", command)
			}
		}
		if *update {
			if b := txtar.Format(&txtar.Archive{Comment: a.Comment, Files: out}); !bytes.Equal(b, raw) {
				if err := os.WriteFile(name, b, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if total < minCorpus {
		t.Errorf("%d outputs, want %d", total, minCorpus)
	}
	var table strings.Builder
	for _, r := range Rules() {
		if s := saved[r]; s[0] > 0 {
			fmt.Fprintf(&table, "\n%-9s %3d outputs %6d bytes", r, s[0], s[1])
		} else {
			t.Errorf("rule %s is used nowhere in the corpus", r)
		}
	}
	t.Logf("%d outputs, %d bytes, %d saved (%.1f %%)%s", total, before, before-after, 100*float64(before-after)/float64(before), table.String())
}
