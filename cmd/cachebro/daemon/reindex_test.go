package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"cachebro/store/wire"
)

// TestReindexBringsAllIn rebuilds the index, without a mount, while other clients search. The scan
// for changes used to be given up after a limited time, and the reindex then ended with a third of
// the files. An interrupted reindex is completed in the background.
func TestReindexBringsAllIn(t *testing.T) {
	p := newProject(t)
	const files = 600
	for n := range files {
		p.write(fmt.Sprintf("dir%d/file%d.go", n%7, n), fmt.Sprintf("package p\n\nvar only%dHere = 1\n", n))
	}
	p.start()
	c := p.dial("cli")
	facts := func(do string) (f wire.IndexFacts) {
		t.Helper()
		a := ask[wire.StoreAnswer](p, c, wire.MIndex, wire.IndexRequest{Do: do})
		if err := json.Unmarshal(a.Facts, &f); err != nil {
			t.Fatal(err)
		}
		return f
	}
	for _, do := range []string{"full", "reindex", "full"} {
		stop, searching := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(searching)
			other, err := wire.Dial(context.Background(), p.paths, wire.Hello{Version: "1.0", Client: "cli", Root: p.root}, wire.Timeouts{})
			if err != nil {
				t.Error(err)
				return
			}
			defer other.Close()
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := wire.Call[wire.SearchAnswer](context.Background(), other, wire.MSearch, wire.SearchQuery{Pattern: "only7Here", Mode: wire.SearchExact}); err != nil {
					t.Error(err)
					return
				}
			}
		}()
		f := facts(do)
		close(stop)
		<-searching
		if f.Live != files || f.Missing != "" {
			t.Errorf("%s: %+v, want %d live", do, f, files)
		}
		if st := ask[wire.StoreAnswer](p, c, wire.MIndex, wire.IndexRequest{Do: "stats"}); !strings.Contains(st.Text, fmt.Sprintf("ready: %d files, %d indexed", files, files)) {
			t.Errorf("after %s: %s", do, st.Text)
		}
	}

	ctx, cancel := context.WithCancel(context.Background())
	interrupted := make(chan error)
	go func() {
		_, err := wire.Call[wire.StoreAnswer](ctx, c, wire.MIndex, wire.IndexRequest{Do: "full"})
		interrupted <- err
	}()
	watch := p.dial("cli")
	begun := func() bool {
		var f wire.IndexFacts
		a := ask[wire.StoreAnswer](p, watch, wire.MIndex, wire.IndexRequest{Do: "progress"})
		return json.Unmarshal(a.Facts, &f) == nil && f.Progress != nil && (f.Progress.Looking || f.Progress.Of > 0)
	}
	ended := false
	for !ended && !begun() {
		select {
		case err := <-interrupted: // the reindex ended before it could be interrupted
			if ended = true; err != nil {
				t.Error(err)
			}
		default:
		}
	}
	cancel()
	if !ended {
		<-interrupted
	}
	eventually(t, "the rest is indexed", func() bool {
		return strings.Contains(ask[wire.StoreAnswer](p, watch, wire.MIndex, wire.IndexRequest{Do: "stats"}).Text, fmt.Sprintf("ready: %d files, %d indexed", files, files))
	})
}
