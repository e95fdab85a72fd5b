package mcp

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
)

var app = files{
	"go.mod":         "module example.org/app\n",
	"auth/login.go":  "// Package auth lets people in. And out.\npackage auth\n\nimport \"example.org/app/db\"\n\n// Login checks a password.\nfunc Login(user, password string) error { return db.Find(user) }\n",
	"auth/token.go":  "package auth\n\n// Token is a session.\ntype Token struct{ ID string }\n",
	"auth/many.go":   "package auth\n\n" + manyFuncs(30),
	"db/db.go":       "package db\n\n// Find looks a user up.\nfunc Find(user string) error { return nil }\n",
	"main.go":        "package main\n\nimport \"example.org/app/auth\"\n\nfunc main() { _ = auth.Login(\"\", \"\") }\n",
	"docs/auth.md":   "# Logging in\n\nHow people get in, see `auth/login.go`.\n\n## Tokens\n\nThey are made in auth/token.go and live for an hour.\n",
	"docs/other.md":  "# Other\n\nNothing of that.\n",
	"other/other.go": "package other\n\nfunc Nothing() {}\n",
	"cachebro.yml":   "# The map.\nnodes:\n  # who may come in\n  login:\n    kind: domain\n    summary: People come in here.   # short\n    source: [auth/, main.go]\n    uses: store\n  store: {source: db/, summary: Where things lie.}\n",
}

// manyFuncs returns a text so long that a diff of its bundle is shorter than the bundle.
func manyFuncs(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "func Step%d(user, password, session string) error { return nil }\n", i)
	}
	return b.String()
}

// bundleText is the JSON of a bundle.
type bundleText struct {
	Ref, Kind, Label, Summary, Size, Etag string
	Files, Symbols, Versions, Problems    []string
	Docs                                  []struct{ Source, Title, Text string }
	Neighbours                            []struct{ Ref, Kind, Edges, Via, Summary string }
	Nodes, Edges                          []string
}

func parsed(t *testing.T, text string) (b bundleText) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &b); err != nil || b.Ref == "" {
		t.Fatalf("not a bundle: %v\n%s", err, text)
	}
	return b
}

func ref(r string) map[string]any { return map[string]any{"ref": r} }

func TestGetContext(t *testing.T) {
	l := liveProject(t, app)
	p := l.connect(ProfileAll)
	full := p.ok("get_context", ref("login"))
	b := parsed(t, full)
	if b.Kind != "group" || b.Label != "domain" || b.Summary != "People come in here." || len(b.Files) != 4 {
		t.Errorf("%s", full)
	}
	for _, want := range []string{`"auth/login.go:7-7 func Login(user, password string) error"`, `{"ref":"store","kind":"group","edges":"uses","summary":"Where things lie."}`,
		`{"ref":"db/","kind":"directory","edges":"imports"`, `{"source":"docs/auth.md:1-4","title":"Logging in"`, `{"ref":"docs/auth.md","kind":"file","edges":"documented by (2)"`} {
		if !strings.Contains(full, want) {
			t.Errorf("no %s in\n%s", want, full)
		}
	}
	// The answer is exactly as specified.
	hit := p.ok("get_context", ref("login"))
	lines := strings.Split(hit, "\n")
	if len(lines) != 6 || lines[1] != `  "cached": true,` || lines[2] != `  "etag": "`+b.Etag+`",` || !strings.HasPrefix(lines[3], `  "unchanged_since": "20`) ||
		lines[4] != `  "hint": "Context unchanged since last request. Use previous bundle."` {
		t.Errorf("hit:\n%s", hit)
	}
	// A reader that requests the bundle twice in a row has lost it.
	if got := p.ok("get_context", ref("login")); got != full {
		t.Errorf("asked again: %.200s", got)
	}
	has(t, p.ok("get_context", ref("login")), "{\n  \"cached\": true,")
	// The whole bundle is sent if force is set, if the bounds differ, and to another reader.
	if got := p.ok("get_context", map[string]any{"ref": "login", "force": true}); got != full {
		t.Errorf("force: %.200s", got)
	}
	if got := p.ok("get_context", map[string]any{"ref": "login", "depth": 1, "max_nodes": 1, "max_chunks": 1}); len(parsed(t, got).Docs) != 1 || len(parsed(t, got).Neighbours) != 2 {
		t.Errorf("bounds: %s", got)
	}
	if got := l.connect(ProfileAll).ok("get_context", ref("login")); got != full {
		t.Errorf("another reader was not shown it: %.200s", got)
	}
	// A change outside of the bundle leaves it unchanged, but a change inside does not.
	write(t, l.dir+"/other/other.go", "package other\n\nfunc Something() {}\n")
	has(t, p.ok("get_context", ref("login")), "{\n  \"cached\": true,")
	write(t, l.dir+"/auth/token.go", "package auth\n\n// Token is a session.\ntype Token struct{ ID, User string }\n\nfunc New() Token { return Token{} }\n")
	got := p.ok("get_context", ref("login"))
	label, hunks, _ := strings.Cut(got, "\n")
	has(t, label, "[changed · +")
	anew := l.connect(ProfileAll).ok("get_context", ref("login"))
	if patched(t, full, hunks) != anew || !strings.Contains(anew, "func New() Token") {
		t.Errorf("the difference does not lead to the bundle:\n%s\n%s", got, anew)
	}
	for bad, want := range map[string]string{"logon": "did you mean login", "": "ref is empty", "nothing at all": "there is no node", "../..": "there is no node", "/auth": "there is no node"} {
		if got := p.bad("get_context", ref(bad)); !strings.Contains(got, want) {
			t.Errorf("%q: %s", bad, got)
		}
	}
	if got := p.bad("get_context", map[string]any{"ref": "login", "depth": -1}); !strings.Contains(got, "cannot be negative") {
		t.Error(got)
	}
	// An absolute path works, and so does a directory without its slash.
	if a, b := parsed(t, p.ok("get_context", ref(l.dir+"/auth"))), parsed(t, l.connect(ProfileAll).ok("get_context", ref("auth/"))); a.Ref != "auth/" || a.Etag != b.Etag {
		t.Errorf("%+v %+v", a, b)
	}
}

// A reader has seen nothing if its client reports no ids and its connection was not declared a
// reader. The bundles stored on disk say nothing about readers.
func TestContextOfUnknownReaders(t *testing.T) {
	l := liveProject(t, app)
	p := connect(t, Options{Root: l.dir, Profile: ProfileAll, Dial: l.dial})
	full := p.ok("get_context", ref("auth/"))
	for range 3 {
		if got := p.ok("get_context", ref("auth/")); got != full {
			t.Fatalf("%.200s", got)
		}
	}
	l.stop(syscall.SIGKILL) // the stored bundle outlives this; what was shown does not
	l.start()
	q := l.connect(ProfileAll)
	if got := q.ok("get_context", ref("auth/")); got != full {
		t.Errorf("after a restart: %.200s", got)
	}
	has(t, q.ok("get_context", ref("auth/")), "{\n  \"cached\": true,")
}

func TestGetGraph(t *testing.T) {
	l := liveProject(t, app)
	p := l.connect(ProfileAll)
	whole := parsed(t, p.ok("get_graph", nil))
	if got := strings.Join(whole.Edges, "; "); got != "auth/ -> db/ imports (1); login -> store uses" {
		t.Errorf("edges %s", got)
	}
	if len(whole.Nodes) != 6 || !strings.HasPrefix(whole.Nodes[2], "auth/ · directory · 3 files · Package auth lets people in.") {
		t.Errorf("nodes %q", whole.Nodes)
	}
	has(t, p.ok("get_graph", nil), "{\n  \"cached\": true,")
	if got := strings.Join(parsed(t, p.ok("get_graph", map[string]any{"ref": "db/", "depth": 1})).Edges, "; "); got != "auth/ -> db/ imports; db/ -> store part of" {
		t.Errorf("around db: %s", got)
	}
}

func TestUpdateNode(t *testing.T) {
	l := liveProject(t, app)
	p := l.connect(ProfileAll)
	yml := l.dir + "/cachebro.yml"
	if err := os.Chmod(yml, 0o640); err != nil {
		t.Fatal(err)
	}
	before := parsed(t, p.ok("get_context", ref("login")))
	p.ok("update_node", map[string]any{"ref": "login", "summary": "People come in: and go."})
	want := strings.Replace(app["cachebro.yml"], "People come in here.", `"People come in: and go."`, 1)
	if got := read(t, yml); got != want {
		t.Fatalf("got\n%s\nwant\n%s", got, want)
	}
	if got := l.connect(ProfileAll).ok("get_context", ref("login")); parsed(t, got).Summary != "People come in: and go." || parsed(t, got).Etag == before.Etag {
		t.Errorf("the bundle: %s", got)
	}
	// The agent supplied none of the file's lines, so it has not seen them.
	if got := p.ok("read_file", at("cachebro.yml")); got != want {
		t.Errorf("read after update: %.100q", got)
	}
	p.ok("update_node", map[string]any{"ref": "auth", "summary": "The package."})
	p.ok("update_node", map[string]any{"ref": "docs", "source": []string{"./docs//auth.md", "docs/other.md"}, "summary": "yes"})
	p.ok("update_node", map[string]any{"ref": "ways", "source": "docs/"})
	want += "  auth/:\n    summary: The package.\n  docs/:\n    summary: \"yes\"\n    source: [docs/auth.md, docs/other.md]\n  ways:\n    source: docs/\n"
	if got := read(t, yml); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if st, err := os.Stat(yml); err != nil || st.Mode().Perm() != 0o640 {
		t.Error(st, err)
	}
	if got := p.ok("update_node", map[string]any{"ref": "ways", "source": "docs/"}); !strings.Contains(got, "already has these values") {
		t.Error(got)
	}
	for _, c := range []struct {
		args map[string]any
		want string
	}{
		{ref("login"), "nothing to set"}, {map[string]any{"summary": "x"}, "argument ref is missing"},
		{map[string]any{"ref": "nowhere", "summary": "x"}, "groups are login, store"},
		{map[string]any{"ref": "login", "source": "../out"}, "leads out of the project"},
	} {
		if got := p.bad("update_node", c.args); !strings.Contains(got, c.want) {
			t.Errorf("%v: %s", c.args, got)
		}
	}
	write(t, yml, "nodes: [\n")
	if got := p.bad("update_node", map[string]any{"ref": "login", "summary": "x"}); !strings.Contains(got, "repair the file first") || read(t, yml) != "nodes: [\n" {
		t.Errorf("a broken file: %s", got)
	}
	if got := parsed(t, p.ok("get_context", ref("auth/"))); len(got.Problems) != 1 || !strings.HasPrefix(got.Problems[0], "cachebro.yml: line 1: ") {
		t.Errorf("%+v", got)
	}
}
