package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// documents writes the man pages, completions, licences and the bill of materials.
func (b *build) documents(ctx context.Context) error {
	pages := filepath.Join(b.work, "doc", "man", "man1")
	if err := os.MkdirAll(pages, 0o755); err != nil {
		return err
	}
	if err := manPages(pages, b.made); err != nil {
		return err
	}
	for shell, name := range map[string]string{"bash": "bash/cachebro", "zsh": "zsh/_cachebro", "fish": "fish/cachebro.fish"} {
		script, err := command(ctx, nil, b.native, "completion", shell)
		if err != nil {
			return err
		}
		if err := b.document("completions/"+name, []byte(script)); err != nil {
			return err
		}
	}
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := b.document(name, text); err != nil {
			return err
		}
	}
	if err := b.extensions(); err != nil {
		return err
	}
	return b.materials(ctx)
}

// extensions copies the files that clients install, arranged as in the repository. So each client
// can add them in the same way from a checkout, a package or npm.
func (b *build) extensions() error {
	for _, from := range []string{".claude-plugin", "hooks/plugin", "hooks/gemini", "hooks/opencode"} {
		err := filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			return b.document("extensions/"+filepath.ToSlash(p), text)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// document writes a file that is part of every archive.
func (b *build) document(name string, text []byte) error {
	path := filepath.Join(b.work, "doc", filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// module is a Go module that is linked into a binary.
type module struct{ Path, Version, Dir, Sum string }

// materials collects the licences of all modules that are linked in for any target, and lists
// the modules as SPDX 2.3.
func (b *build) materials(ctx context.Context) error {
	found := map[string]module{}
	for _, t := range b.targets {
		out, err := command(ctx, []string{"GOOS=" + t.os, "GOARCH=" + t.arch, "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false"},
			"go", "list", "-deps", "-f", "{{with .Module}}{{if not (or .Main .Replace)}}{{.Path}}\t{{.Version}}\t{{.Dir}}\t{{.Sum}}{{end}}{{end}}", "./cmd/cachebro", "./cmd/cachebro-fleet")
		if err != nil {
			return err
		}
		for _, line := range strings.Split(out, "\n") {
			if f := strings.Split(line, "\t"); len(f) == 4 {
				found[f[0]] = module{f[0], f[1], f[2], f[3]}
			}
		}
	}
	var all []module
	for _, m := range found {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b module) int { return strings.Compare(a.Path, b.Path) })
	var w strings.Builder
	fmt.Fprintf(&w, "cachebro and cachebro-fleet contain the following modules, under these licences.\n")
	for _, m := range all {
		texts, err := licences(m.Dir)
		if err != nil {
			return fmt.Errorf("licences of %s: %w", m.Path, err)
		}
		if texts == "" {
			return fmt.Errorf("%s %s has no licence file", m.Path, m.Version)
		}
		fmt.Fprintf(&w, "\n%s\n%s %s\n\n%s", strings.Repeat("=", 72), m.Path, m.Version, texts)
	}
	// These parts of the web pages are not Go modules.
	htmx, err := os.ReadFile("cmd/cachebro/ui/assets/LICENSE.htmx")
	if err != nil {
		return err
	}
	fmt.Fprintf(&w, "\n%s\nhtmx %s\n\n%s", strings.Repeat("=", 72), htmxVersion, htmx)
	goroot, err := command(ctx, nil, "go", "env", "GOROOT")
	if err != nil {
		return err
	}
	texts, err := licences(strings.TrimSpace(goroot))
	if err != nil {
		return err
	}
	fmt.Fprintf(&w, "\n%s\nthe Go standard library\n\n%s", strings.Repeat("=", 72), texts)
	if err := b.document("THIRD-PARTY-LICENSES", []byte(w.String())); err != nil {
		return err
	}
	return b.bill(all)
}

func licences(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var w strings.Builder
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		if e.Type()&fs.ModeType != 0 || !strings.HasPrefix(name, "LICEN") && !strings.HasPrefix(name, "COPYING") && !strings.HasPrefix(name, "NOTICE") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&w, "%s\n", bytes.TrimRight(text, "\n"))
	}
	return w.String(), nil
}

// htmxVersion is the version of cmd/cachebro/ui/assets/htmx.min.js.
const htmxVersion = "2.0.11"

// bill writes the bill of materials.
func (b *build) bill(all []module) error {
	type ref struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	type pkg struct {
		ID       string `json:"SPDXID"`
		Name     string `json:"name"`
		Version  string `json:"versionInfo"`
		Download string `json:"downloadLocation"`
		Files    bool   `json:"filesAnalyzed"`
		Licence  string `json:"licenseConcluded"`
		Declared string `json:"licenseDeclared"`
		Right    string `json:"copyrightText"`
		Refs     []ref  `json:"externalRefs,omitempty"`
	}
	type relation struct {
		From string `json:"spdxElementId"`
		Kind string `json:"relationshipType"`
		To   string `json:"relatedSpdxElement"`
	}
	const none = "NOASSERTION"
	packages := []pkg{{ID: "SPDXRef-cachebro", Name: "cachebro", Version: b.version, Download: none, Licence: "MIT", Declared: "MIT", Right: none}}
	relations := []relation{{"SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-cachebro"}}
	for i, m := range all {
		id := fmt.Sprintf("SPDXRef-%d", i+1)
		packages = append(packages, pkg{ID: id, Name: m.Path, Version: m.Version, Download: none, Licence: none, Declared: none, Right: none,
			Refs: []ref{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + m.Path + "@" + m.Version}}})
		relations = append(relations, relation{"SPDXRef-cachebro", "DEPENDS_ON", id})
	}
	packages = append(packages, pkg{ID: "SPDXRef-htmx", Name: "htmx.org", Version: htmxVersion, Download: none, Licence: "0BSD", Declared: "0BSD", Right: none,
		Refs: []ref{{"PACKAGE-MANAGER", "purl", "pkg:npm/htmx.org@" + htmxVersion}}})
	relations = append(relations, relation{"SPDXRef-cachebro", "CONTAINS", "SPDXRef-htmx"})
	doc := map[string]any{
		"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": "cachebro-" + b.version,
		"documentNamespace": "https://spdx.org/spdxdocs/cachebro-" + b.version + "-" + b.commit,
		"creationInfo":      map[string]any{"created": b.made.Format("2006-01-02T15:04:05Z"), "creators": []string{"Tool: cachebro scripts/dist"}},
		"packages":          packages, "relationships": relations,
	}
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.out, "cachebro-"+b.version+".spdx.json"), append(text, '\n'), 0o644)
}
