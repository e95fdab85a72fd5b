package mcp

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestDocumentsOverMCP goes through the whole procedure: sync_check names what is stale, the agent
// reads and mends the document, and mark_synced marks the document as up to date. In between the
// daemon is killed, which loses nothing.
func TestDocumentsOverMCP(t *testing.T) {
	l := liveProject(t, files{
		"cachebro.yml": "nodes:\n  core: {source: src/}\ndocs:\n  - {doc: docs/core.md, code: core}\n",
		"docs/core.md": "# Core\n\nSize is 1.\n", "README.md": "Start at src/a.go.\n", "src/a.go": "package src\n\nvar Size = 1\n", "src/b.go": "package src\n",
	})
	p := l.connect(ProfileAll)
	has(t, p.ok("sync_check", nil), "[0 of 2 pairs of documents and code not in sync · as of version ")
	write(t, filepath.Join(l.dir, "src/a.go"), "package src\n\nvar Size = 20\n")
	l.stop(syscall.SIGKILL)
	l.start()
	got := p.ok("sync_check", nil)
	has(t, got, "[2 of 2 pairs")
	for _, want := range []string{"stale: README.md · about src/a.go (inferred)\n", "stale: docs/core.md · about src/ (declared)\n", "  changed src/a.go +1 -1 · version "} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "var Size") {
		t.Errorf("a diff that nobody asked for:\n%s", got)
	}
	if got = p.ok("sync_check", ref("core")); !strings.Contains(got, "-var Size = 1\n+var Size = 20") {
		t.Errorf("no diff:\n%s", got)
	}
	write(t, filepath.Join(l.dir, "docs/core.md"), "# Core\n\nSize is 20.\n")
	if got = p.ok("sync_check", ref("docs/core.md")); !strings.Contains(got, "document edited since") {
		t.Errorf("%s", got)
	}
	if got = p.ok("mark_synced", ref("core")); !strings.Contains(got, "docs/core.md · src/ (was stale)") || !strings.Contains(got, "README.md") {
		t.Errorf("%s", got)
	}
	has(t, p.ok("sync_check", nil), "[0 of 2 pairs")
	for _, args := range []map[string]any{ref("none/such.md"), ref(""), ref("../x"), {"ref": "core", "as_of": -1}, nil} {
		p.bad("mark_synced", args)
	}
}

// TestNoteOverMCP: a note is stored, listed, and found by search and by its id.
func TestNoteOverMCP(t *testing.T) {
	l := liveProject(t, files{"src/a.go": "package src\n"})
	p := l.connect(ProfileAll)
	note := map[string]any{"text": "The pool is never closed\non purpose", "kind": "decision", "path": "src/a.go"}
	id, ok := strings.CutPrefix(p.ok("note", note), "noted as ")
	if !ok {
		t.Fatal(id)
	}
	if got := p.ok("note", note); got != "already noted as "+id {
		t.Error(got)
	}
	l.stop(syscall.SIGKILL)
	l.start()
	want := id + " [decision] src/a.go · "
	for _, got := range []string{
		p.ok("note", nil), p.ok("note", map[string]any{"path": "src"}), p.ok("search", map[string]any{"pattern": "closed pools", "kind": "note", "mode": "ranked"}),
		p.ok("search", map[string]any{"pattern": "on purpose", "kind": "note"}), p.ok("search", map[string]any{"pattern": id}),
	} {
		if has(t, got, want); !strings.HasSuffix(got, "\n  The pool is never closed\n  on purpose") {
			t.Errorf("%q", got)
		}
	}
	if got := p.ok("note", map[string]any{"kind": "todo"}); got != "no notes" {
		t.Error(got)
	}
	p.bad("note", map[string]any{"text": "x", "kind": "two words"})
	p.bad("note", map[string]any{"text": "x", "path": "../out"})
}
