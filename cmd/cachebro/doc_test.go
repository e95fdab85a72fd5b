package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cachebro/cmd/cachebro/cli"
)

// TestDocumentsNameWhatExists: a document that names a file or a package of the
// project is wrong when that is gone, and nobody notices.
func TestDocumentsNameWhatExists(t *testing.T) {
	root := filepath.Join("..", "..")
	docs, err := filepath.Glob(filepath.Join(root, "doc", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	if len(docs) < 5 {
		t.Fatalf("only %d documents in doc/", len(docs))
	}
	docs = append(docs, filepath.Join(root, "CONTRIBUTING.md"), filepath.Join(root, "README.md"))
	// What stands in backquotes and begins with a room of the top level, and
	// where a link leads.
	named := regexp.MustCompile("`((?:cmd|fusefs|store|search|mcp|hooks|scripts|testdata|doc|\\.ci)(?:/[A-Za-z0-9_.-]+)+)/?[ `]")
	linked := regexp.MustCompile(`\]\(([a-zA-Z.][^):#]*)\)`)
	found := 0
	for _, doc := range docs {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		check := func(base, name string) {
			found++
			if _, err := os.Stat(filepath.Join(base, name)); err != nil {
				t.Errorf("%s names %s, which does not exist", filepath.Base(doc), name)
			}
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			check(root, strings.TrimSuffix(m[1], "/"))
		}
		for _, m := range linked.FindAllStringSubmatch(string(text), -1) {
			check(filepath.Dir(doc), m[1])
		}
	}
	if found < 50 {
		t.Errorf("only %d names found: does the pattern still fit?", found)
	}
}

// TestArchitectureNamesEveryPackage: a newcomer finds each room of the product on
// the map. Tests and tools have pages of their own.
func TestArchitectureNamesEveryPackage(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "doc", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	tools := []string{"cmd/cachebro/e2e", "cmd/cachebro/replay", "store/memo/results/redistest", "store/readers/conformance"}
	found := 0
	for _, top := range []string{"cmd", "fusefs", "store", "search", "mcp", "hooks"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return err
			}
			if code, err := filepath.Glob(filepath.Join(path, "*.go")); err != nil || len(code) == 0 {
				return err
			}
			found++
			pkg, err := filepath.Rel(root, path)
			if err == nil && !slices.Contains(tools, pkg) && !strings.Contains(string(text), "`"+pkg+"`") {
				t.Errorf("doc/architecture.md does not name %s", pkg)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 40 {
		t.Errorf("only %d packages found", found)
	}
}

// TestOneVersion: what else names the version names the program's.
func TestOneVersion(t *testing.T) {
	changes, err := os.ReadFile(filepath.Join("..", "..", "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	if m := regexp.MustCompile(`(?m)^## (\S+)`).FindSubmatch(changes); m == nil || string(m[1]) != cli.Version {
		t.Errorf("CHANGELOG.md begins with %s, the program is %s", m, cli.Version)
	}
	for _, name := range []string{"plugin/.claude-plugin/plugin.json", "plugin/.codex-plugin/plugin.json", "gemini/gemini-extension.json"} {
		var plugin struct{ Version string }
		b, err := os.ReadFile(filepath.Join("..", "..", "hooks", filepath.FromSlash(name)))
		if err == nil {
			err = json.Unmarshal(b, &plugin)
		}
		if err != nil || plugin.Version != cli.Version {
			t.Errorf("%s is of %s, the program of %s (%v)", name, plugin.Version, cli.Version, err)
		}
	}
}
