package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cachebro/cmd/cachebro/cli"
)

// TestDocumentsNameWhatExists checks that every file and package of the project that a document
// names exists.
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
	// These are words in backquotes that begin with a top-level directory, and the targets of
	// links.
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

// TestDocumentsNameWhatIsDeclared checks that each name in "`Closed` or `Event` in
// `fusefs/options.go`" is declared in that file. Two rows named functions that had been renamed.
func TestDocumentsNameWhatIsDeclared(t *testing.T) {
	root := filepath.Join("..", "..")
	architecture, err := os.ReadFile(filepath.Join(root, "doc", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	contributing, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	const name = "`[A-Za-z.]+`"
	list := regexp.MustCompile("(" + name + `(?:(?:,|,?\s+and|,?\s+or)\s+` + name + ")*)" + `\s+in\s+` + "`([a-z][a-z_/0-9]*/[a-z_0-9]+[.]go)`")
	found := 0
	for _, m := range list.FindAllSubmatch(slices.Concat(architecture, contributing), -1) {
		source, err := os.ReadFile(filepath.Join(root, string(m[2])))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, word := range regexp.MustCompile(name).FindAllString(string(m[1]), -1) {
			found++
			word = strings.Trim(word, "`")
			last := word[strings.LastIndexByte(word, '.')+1:]
			declared := regexp.MustCompile(`(?m)^(?:func (?:\([^)]*\) )?|type |var |const |\t)` + last + `\b`)
			if !declared.Match(source) {
				t.Errorf("the documents name %s in %s, which does not declare it", word, m[2])
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d names found: does the pattern still fit?", found)
	}
}

// TestEveryPackageSaysWhatItIsFor checks that every package has a comment that describes its
// purpose.
func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	packages, err := exec.Command("go", "list", "-f", "{{.ImportPath}}\t{{.Doc}}", "cachebro/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for line := range strings.Lines(string(packages)) {
		found++
		if name, doc, _ := strings.Cut(strings.TrimSpace(line), "\t"); doc == "" {
			t.Errorf("%s has no package comment", name)
		}
	}
	if found < 40 {
		t.Errorf("only %d packages found", found)
	}
}

// TestOneVersion checks that every place that contains the program's version contains the same one.
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
