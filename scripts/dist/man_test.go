package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestManPages: each command has a page with its flags, and special characters are escaped.
func TestManPages(t *testing.T) {
	dir := t.TempDir()
	if err := manPages(dir, time.Now()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"cachebro": "cachebro-store(1)", "cachebro-undo": "--session", "cachebro-store-prune": "--limits", "cachebro-docs-check": "<!-- cachebro: documents", "cachebro-remote": "*\\&.pem"} {
		page, err := os.ReadFile(filepath.Join(dir, name+".1"))
		if err != nil || !strings.Contains(string(page), want) {
			t.Errorf("%s: %v: no %q in:\n%s", name, err, want, page)
		}
	}
}
