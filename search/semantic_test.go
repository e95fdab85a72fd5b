package search

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// embedLines is an embedder that knows three meanings. It recognises each by a few words.
func embedLines(in io.Reader, out io.Writer) {
	meanings := [][]string{{"car", "automobile", "wheel"}, {"bread", "bakery", "dough"}, {"ship", "vessel", "harbour"}}
	s := bufio.NewScanner(in)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var q struct {
			ID    int      `json:"id"`
			Texts []string `json:"texts"`
		}
		if json.Unmarshal(s.Bytes(), &q) != nil {
			return
		}
		vectors := make([][]float32, len(q.Texts))
		for i, text := range q.Texts {
			vectors[i] = make([]float32, len(meanings))
			for m, words := range meanings {
				for _, w := range words {
					vectors[i][m] += float32(strings.Count(text, w))
				}
			}
		}
		raw, _ := json.Marshal(map[string]any{"id": q.ID, "vectors": vectors})
		fmt.Fprintf(out, "%s\n", raw)
	}
}

// TestMeaning asks with words that no file contains, so only the embedder can answer. Then the
// index continues without an embedder. Across a restart and a rebuild it keeps the vectors.
func TestMeaning(t *testing.T) {
	t.Setenv("CACHEBRO_SEARCH_EMBEDDER", "1")
	c := newDiskCorpus(t, t.TempDir())
	c.write(t, "garage.md", "# Garage\n\nEvery automobile has a place.\n")
	c.write(t, "kitchen.md", "# Kitchen\n\nThe dough rests for an hour.\n")
	c.write(t, "quay.md", "# Quay\n\nA vessel is moored there.\n")
	dir := filepath.Join(t.TempDir(), "index")
	open := func(command string) *Index {
		o := Options{}
		if e := NewEmbedCommand(command); e != nil {
			o.Embedder = e
			t.Cleanup(func() { e.Close() })
		}
		x := Open(dir, c, o)
		x.Start(t.Context())
		t.Cleanup(func() { x.Close() })
		return x
	}
	until := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	first := func(x *Index, ask string, h Hints) string {
		t.Helper()
		got, err := x.Rank(t.Context(), ask, Query{}, h, 5)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 0 {
			return ""
		}
		return string(got[0].Path)
	}
	x := open(os.Args[0])
	until("no vectors", func() bool { return x.Stats().Embedded == 3 })
	for ask, want := range map[string]string{"wheel": "garage.md", "bakery": "kitchen.md", "harbour": "quay.md"} {
		// A question must be answered within a second, and on a busy machine several attempts may
		// be needed.
		until(ask+" does not give "+want, func() bool { return first(x, ask, Hints{}) == want })
		if got := first(x, ask, Hints{WordsOnly: true}); got != "" {
			t.Errorf("by words alone, %q gives %s", ask, got)
		}
	}
	if got := first(x, "vessel moored", Hints{}); got != "quay.md" {
		t.Errorf("words still count, but %q gives %q", "vessel moored", got)
	}
	c.write(t, "kitchen.md", "# Kitchen\n\nNow it is a harbour harbour.\n")
	x.Poke()
	until("what changed has no new vector", func() bool { return x.Stats().Embedded == 4 })
	until("the old meaning is still found", func() bool { return first(x, "bakery", Hints{}) == "" })
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}

	x = open("/nonexistent/embedder")
	until("no index", func() bool { return x.Stats().Ready })
	if got := first(x, "automobile place", Hints{}); got != "garage.md" {
		t.Errorf("with an embedder that cannot run: %q", got)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	x = open(os.Args[0])
	// An index that was closed before its last batch was on disk may have vectors of one more
	// content: the file's previous content.
	until("another model's vectors are not made anew", func() bool { return x.Stats().Embedded >= 3 && x.Stats().Seq == c.Seq() })
	again := x.Stats().Embedded
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}

	// After a crash in the middle of a line, and after the index was deleted, the complete lines
	// are kept.
	f, err := os.OpenFile(dir+".vectors", os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(f, `{"blob":"00`)
	f.Close()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	v, err := openVectors(dir+".vectors", os.Args[0])
	if err != nil || v.count() < again {
		t.Fatalf("%d vectors were kept: %v", v.count(), err)
	}
	if err := v.close(); err != nil {
		t.Fatal(err)
	}
}
