package mcp

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAutoReindex searches where nothing is mounted: what was written since is
// found, unless the server was told not to look, which the answer then says.
func TestAutoReindex(t *testing.T) {
	l := liveProject(t, files{"first.go": "package p\n"})
	looks := l.connect(ProfileDefault)
	write(t, filepath.Join(l.dir, "second.go"), "package p\n\nvar writtenBeside = 2\n")
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		text := looks.ok("search", map[string]any{"pattern": "writtenBeside"})
		if strings.Contains(text, "second.go:3: var writtenBeside = 2") {
			break
		}
		// A look may take longer than a search waits for it.
		if !strings.Contains(text, "takes longer") || time.Now().After(end) {
			t.Fatalf("what was written beside is not found: %s", text)
		}
	}
	trusts := connect(t, Options{Root: l.dir, Reader: ReaderConnection, Small: 1 << 30, Dial: l.dial, NoReindex: true})
	if text := trusts.ok("search", map[string]any{"pattern": "writtenBeside"}); !strings.Contains(text, "[not mounted") || !strings.Contains(text, "second.go:3") {
		t.Errorf("nobody looked, and the answer is: %s", text)
	}
}
