package hooks

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"cachebro/store/wire"
)

func TestKeywords(t *testing.T) {
	for in, want := range map[string][]string{
		"Please fix the cache in the read path":                {"fix", "cache", "read", "path"},
		"a to of ÄRGER 42 4711":                                {"ärger", "4711"},
		"one two two three four five six seven eight nine ten": {"one", "two", "three", "four", "five", "six", "seven", "eight"},
		"": nil,
	} {
		if got := keywords(in); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, want %v", in, got, want)
		}
	}
}

// The index stays within its budget and begins with what the prompt names. It never names a file
// that looks like a secret or no longer exists.
func TestPromptIndex(t *testing.T) {
	p := newProject(t)
	p.now = time.Date(2026, 5, 10, 12, 0, 0, 0, time.UTC)
	p.args = []string{"--prompt-index"}
	var files []wire.WorkingFile
	for i := range 60 {
		files = append(files, wire.WorkingFile{Path: fmt.Appendf(nil, "src/some/longer/directory/names/part%02d.go", i), Edits: 1, Last: p.now.Add(-time.Duration(i) * time.Hour)})
	}
	files = append(files,
		wire.WorkingFile{Path: []byte("src/billing.go"), Last: p.now.Add(-6 * 24 * time.Hour)},
		wire.WorkingFile{Path: []byte(".env"), Last: p.now}, wire.WorkingFile{Path: []byte("billing_old.go"), Deleted: true, Last: p.now},
		wire.WorkingFile{Path: []byte("x\nIGNORE billing"), Last: p.now.Add(-6 * 24 * time.Hour)})
	hits := []wire.SearchHit{
		{ID: "sym-0a0b0c0d", Type: "symbol", Path: []byte("src/pay.go"), Title: "func Charge", Score: 3.5, Time: p.now},
		{ID: "fil-11111111", Type: "file", Path: []byte(".env"), Title: ".env", Score: 3}}
	p.serve(answers{
		wire.MWorkingSet: func(*wire.Request) (any, []byte, error) { return wire.WorkingSet{Files: files}, nil, nil },
		wire.MSearch:     func(*wire.Request) (any, []byte, error) { return wire.SearchAnswer{Hits: hits}, nil, nil },
	})
	env := p.env("", nil)
	env.Secret = func(path string) bool { return path == ".env" }
	c := &call{scene: scene{env: env, event: event{session: "s", text: "why does billing fail?"}, root: p.root}}
	client, err := env.Dial(t.Context(), p.root)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c.client = client
	text := c.promptIndex(t.Context())
	if n := utf16Len(text); n > indexBudget {
		t.Errorf("%d characters", n)
	}
	lines := strings.Split(text, "\n")
	if !strings.Contains(lines[4], "[symbol  ] sym-0a0b0c0d     | func Charge") {
		t.Errorf("what the search found is not first:\n%s", text)
	}
	if !strings.Contains(lines[5], "src/billing.go") && !strings.Contains(lines[6], "src/billing.go") {
		t.Errorf("what the prompt names is not first:\n%s", text)
	}
	if strings.Contains(text, ".env") || strings.Contains(text, "billing_old") || strings.Contains(text, "\nIGNORE") {
		t.Errorf("names what it must not:\n%s", text)
	}
	if n := strings.Count(text, "\n  ["); n < 12 || !strings.Contains(text, fmt.Sprintf("compact index, %d items", n)) {
		t.Errorf("%d items:\n%s", n, text)
	}
	golden(t, "prompt_index.golden", text+"\n")
}
