package hooks

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cachebro/cmd/cachebro/daemon"
	"cachebro/store/wire"
)

// prompts are questions that a developer of this program might ask, each with a file that the index
// should name.
var prompts = []struct{ ask, want string }{
	{"why is the spool record corrupt after a crash?", "store/leaf/spool/"},
	{"make the diff of two texts cheaper", "store/diff/"},
	{"explain how tokens are estimated", "store/tokens/"},
	{"where does the wire server check the peer's uid?", "store/wire/"},
	{"rank search results by recency", "search/rank.go"},
	{"stem the words of the query terms", "search/terms.go"},
	{"fuzzy file names in search", "search/names.go"},
	{"chunk prose by words with overlap", "search/chunk.go"},
	{"regular expression automaton dfa states", "search/automaton.go"},
	{"historical search of deleted text", "search/history.go"},
	{"circuit breaker of the hooks", "hooks/breaker.go"},
	{"statusline shows saved tokens", "hooks/statusline.go"},
	{"rewrite the result of a Read tool", "hooks/read_result.go"},
	{"parse toml settings of codex", "clients/toml.go"},
	{"gitignore pattern matcher", "store/leaf/ignore/"},
	{"http server token and origin check", "mcp/http"},
	{"page long results of a tool", "mcp/page.go"},
	{"subscribe to resources and read the history", "mcp/resources.go"},
	{"outline of a large file", "mcp/page.go"},
	{"symbols and signatures of go files", "search/symbol"},
}

// TestPrompts asks a real daemon about this program's own sources. For each of 20 prompts the block
// is within the budget and has at least twelve items, one of which is the wanted file. Each item's id
// can be used to get its text.
func TestPrompts(t *testing.T) {
	p := newProject(t)
	for _, dir := range []string{"store/leaf/ignore", "hooks", "mcp", "search", "store/diff", "store/leaf/spool", "store/tokens", "store/wire"} {
		if err := os.CopyFS(filepath.Join(p.root, dir), os.DirFS(filepath.Join("..", dir))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(p.root, "hooks", "prompts_test.go")); err != nil { // this file has all the answers
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- daemon.Run(ctx, daemon.Options{Root: p.root, Paths: p.paths, Version: testVersion, MemoryLimit: -1, Ready: func() { close(ready) }})
	}()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("daemon: %v", err)
		}
	}()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	client, err := wire.Dial(ctx, p.paths, wire.Hello{Version: testVersion, Root: p.root}, wire.Timeouts{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := wire.Call[wire.StoreAnswer](ctx, client, wire.MIndex, wire.IndexRequest{Do: "full"}); err != nil {
		t.Fatal(err)
	}
	missed := 0
	for _, tc := range prompts {
		c := &call{scene: scene{env: p.env("", nil), event: event{session: "s", text: tc.ask}, root: p.root}, client: client}
		text := c.promptIndex(ctx)
		// On a busy machine the answer may take longer than a hook waits.
		for end := time.Now().Add(time.Minute); text == "" && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			text = c.promptIndex(ctx)
		}
		if n := utf16Len(text); n > indexBudget {
			t.Errorf("%q: %d characters, want %d at most", tc.ask, n, indexBudget)
		}
		items := 0
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "  [") {
				continue
			}
			items++
			id := strings.TrimSpace(line[len("  [file    ] "):][:16])
			a, err := wire.Call[wire.SearchAnswer](ctx, client, wire.MSearch, wire.SearchQuery{Pattern: id, NoRefresh: true})
			if err != nil || a.How != wire.SearchID || len(a.Hits) != 1 || a.Hits[0].Body == "" {
				t.Errorf("%q: nothing can be had for %s: %+v %v", tc.ask, id, a, err)
			}
		}
		if items < 12 || !strings.Contains(text, fmt.Sprintf("compact index, %d items", items)) {
			t.Errorf("%q: %d items, want 12 at least:\n%s", tc.ask, items, text)
		}
		if !strings.Contains(text, tc.want) {
			missed++
			t.Logf("%q: %s is missing:\n%s", tc.ask, tc.want, text)
		}
	}
	if missed > 2 {
		t.Errorf("%d of %d prompts are not shown what they are about", missed, len(prompts))
	}
}
