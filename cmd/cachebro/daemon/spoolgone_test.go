package daemon

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cachebro/store/wire"
)

// If the spool cannot be read, a full reindex reports that files may be missing, and the scan for
// changes is retried later. Both wait between two attempts.
func TestSpoolCannotBeLookedAt(t *testing.T) {
	p := newProject(t)
	p.write("a.go", "package p\n")
	log, err := os.Create(filepath.Join(p.paths.TempDir, "log")) // with -v, the harness writes its own log elsewhere
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p.opt.Log = slog.New(slog.NewTextHandler(log, nil))
	p.start()
	c := p.dial("cli")
	if err := os.RemoveAll(wire.SpoolDir(p.state)); err != nil {
		t.Fatal(err)
	}
	a := ask[wire.StoreAnswer](p, c, wire.MIndex, wire.IndexRequest{Do: "full"})
	var f wire.IndexFacts
	if err := json.Unmarshal(a.Facts, &f); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(f.Missing, "the newest files may be missing") {
		t.Errorf("missing: %q", f.Missing)
	}
	ask[wire.SearchAnswer](p, c, wire.MSearch, wire.SearchQuery{Mode: wire.SearchExact, Pattern: "package"})
	said := func(text string) func() bool {
		return func() bool {
			b, _ := os.ReadFile(log.Name())
			return strings.Contains(string(b), text)
		}
	}
	eventually(t, "the look for changes gives up for now", said("look at the spool"))
	if err := os.Mkdir(wire.SpoolDir(p.state), 0o700); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the look for changes succeeds", said("msg=baseline files=1"))
}
