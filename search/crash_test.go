package search

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain also serves as the process that TestKilled kills, and as the embedder of TestMeaning.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && !strings.HasPrefix(os.Args[1], "-") {
		commandMain()
		return
	}
	if os.Getenv("CACHEBRO_SEARCH_EMBEDDER") != "" {
		embedLines(os.Stdin, os.Stdout)
		return
	}
	if dir := os.Getenv("CACHEBRO_SEARCH_VICTIM"); dir != "" {
		c := &diskCorpus{}
		if err := c.read(filepath.Join(dir, "src")); err != nil {
			panic(err)
		}
		x := Open(filepath.Join(dir, "index"), c, Options{})
		fmt.Println("open")
		for {
			if err := x.CatchUp(context.Background()); err != nil {
				panic(err)
			}
			if err := x.Reset(); err != nil {
				panic(err)
			}
		}
	}
	os.Exit(m.Run())
}

// TestKilled kills an indexing process 50 times at random moments. Each time it searches for the
// words in the files. No line may be missing, and each hit must be an existing line.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	src := filepath.Join(dir, "src")
	if err := os.CopyFS(src, os.DirFS(goSource(t, "net/url"))); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewSource(3))
	anew := 0
	for round := range 50 {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), "CACHEBRO_SEARCH_VICTIM="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 8)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rng.Intn(60)) * time.Millisecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		// A file changes while no process indexes.
		word := fmt.Sprintf("roundword%d", round)
		if err := os.WriteFile(filepath.Join(src, "changed.go"), []byte("package url\n\nvar "+word+" = 1\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		c := newDiskCorpus(t, src)
		x := Open(filepath.Join(dir, "index"), c, Options{})
		if !x.Stats().Ready {
			anew++
		}
		for _, when := range []string{"before", "after"} {
			want := map[string]int{word: 1, "func Parse(rawURL string)": 1, fmt.Sprintf("roundword%d", round-1): 0}
			for pattern, n := range want {
				r, err := x.Grep(context.Background(), Query{Pattern: pattern, CaseSensitive: true, Include: []string{"url.go", "changed.go"}})
				if err != nil || len(r.Lines) != n && !strings.HasSuffix(word, strings.TrimPrefix(pattern, "roundword")) {
					t.Fatalf("round %d, %s catching up: %q gives %d lines, want %d (%v)", round, when, pattern, len(r.Lines), n, err)
				}
			}
			if err := x.CatchUp(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("made anew in %d of 50 rounds", anew)
}

// TestDamaged overwrites the files of the index. Queries must still return the right lines, and the
// index is rebuilt automatically.
func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	c := newDiskCorpus(t, goSource(t, "net/url"))
	x := Open(filepath.Join(dir, "index"), c, Options{})
	if err := x.CatchUp(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	stores, err := filepath.Glob(filepath.Join(dir, "index", "bleve", "store", "*"))
	if err != nil || len(stores) == 0 {
		t.Fatal(stores, err)
	}
	for _, file := range stores {
		if err := os.WriteFile(file, []byte(strings.Repeat("damage", 1000)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	x = Open(filepath.Join(dir, "index"), c, Options{})
	defer x.Close()
	r, err := x.Grep(context.Background(), Query{Pattern: "func Parse(rawURL string)"})
	if err != nil || len(r.Lines) != 1 || !strings.Contains(r.Warning, "rebuilt") {
		t.Errorf("%+v %v", r, err)
	}
	if err := x.CatchUp(context.Background()); err != nil {
		t.Fatal(err)
	}
	r, err = x.Grep(context.Background(), Query{Pattern: "func Parse(rawURL string)"})
	if err != nil || len(r.Lines) != 1 || r.Warning != "" {
		t.Errorf("after it was made anew: %+v %v", r, err)
	}
}
