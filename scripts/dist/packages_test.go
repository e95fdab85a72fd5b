package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// testBuild returns a build whose binaries and documents have a few bytes.
func testBuild(t *testing.T) *build {
	t.Helper()
	b := &build{out: t.TempDir(), work: t.TempDir(), version: "1.2.3", made: time.Unix(1e9, 0).UTC(), targets: []target{{"linux", "amd64"}, {"darwin", "arm64"}}}
	for _, f := range []string{"linux-amd64/cachebro", "linux-amd64/cachebro-fleet", "darwin-arm64/cachebro", "darwin-arm64/cachebro-fleet", "doc/LICENSE", "doc/THIRD-PARTY-LICENSES", "doc/man/man1/cachebro.1"} {
		f = filepath.Join(b.work, f)
		if err := os.MkdirAll(filepath.Dir(f), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f, []byte(f[len(b.work):]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.extensions(); err != nil {
		t.Fatal(err)
	}
	for _, step := range []func(context.Context) error{b.archives, b.npm, b.registry, b.checksums} {
		if err := step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// unpack returns the names and contents of the files in a tarball.
func unpack(t *testing.T, name string) map[string]string {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(text)
	}
}

// TestNpmAndRegistry: the package that people install names the packages of the platforms with its
// own version. The registry's entry names the package, and has everything that the schema requires.
func TestNpmAndRegistry(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	b := testBuild(t)
	files := unpack(t, filepath.Join(b.out, "npm-cachebro-1.2.3.tgz"))
	var wrapper struct {
		Name, Version, McpName, Main string
		Bin, Scripts                 map[string]string
		Homepage                     string
		Repository                   struct{ Type, URL string }
		Optional                     map[string]string `json:"optionalDependencies"`
	}
	if err := json.Unmarshal([]byte(files["package/package.json"]), &wrapper); err != nil {
		t.Fatal(err)
	}
	if files["package/"+wrapper.Bin["cachebro"]] == "" || len(wrapper.Scripts) > 0 || len(wrapper.Optional) != 2 {
		t.Errorf("the package: %+v", wrapper)
	}
	if wrapper.Homepage != homepage || wrapper.Repository.Type != "git" || !strings.Contains(wrapper.Repository.URL, strings.TrimPrefix(homepage, "https://")) {
		t.Errorf("who meets the package does not learn where it comes from: %+v", wrapper)
	}
	// Clients can install our plugins from the package in the same way as from a checkout.
	for _, name := range []string{wrapper.Main, ".claude-plugin/marketplace.json", "hooks/plugin/.claude-plugin/plugin.json", "hooks/plugin/.codex-plugin/plugin.json", "hooks/gemini/gemini-extension.json"} {
		if files["package/"+name] == "" {
			t.Errorf("no %s in the package", name)
		}
		if unpack(t, filepath.Join(b.out, "cachebro-1.2.3-linux-amd64.tar.gz"))["cachebro-1.2.3-linux-amd64/share/cachebro/"+name] == "" {
			t.Errorf("no %s in the tarball", name)
		}
	}
	for name, version := range wrapper.Optional {
		inside := unpack(t, filepath.Join(b.out, "npm-"+name+"-1.2.3.tgz"))
		var one struct {
			Name, Version string
			OS, CPU       []string
		}
		if err := json.Unmarshal([]byte(inside["package/package.json"]), &one); err != nil {
			t.Fatal(err)
		}
		if one.Name != name || one.Version != version || version != b.version || name != "cachebro-"+one.OS[0]+"-"+one.CPU[0] || inside["package/bin/cachebro"] == "" {
			t.Errorf("%s: %+v", name, one)
		}
	}

	text, err := os.ReadFile(filepath.Join(b.out, "server.json"))
	if err != nil {
		t.Fatal(err)
	}
	var entry struct {
		Name, Description, Version string
		Packages                   []struct {
			RegistryType, Identifier, Version string
			Transport                         struct{ Type string }
			PackageArguments                  []struct{ Type, Value string }
		}
	}
	d := json.NewDecoder(bytes.NewReader(bytes.Replace(text, []byte(`"$schema"`), []byte(`"Schema"`), 1)))
	if err := d.Decode(&entry); err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$`).MatchString(entry.Name) || entry.Name != wrapper.McpName {
		t.Errorf("name %q, in the package %q", entry.Name, wrapper.McpName)
	}
	if n := len(entry.Description); n == 0 || n > 100 {
		t.Errorf("a description of %d characters, 1 to 100 are allowed", n)
	}
	p := entry.Packages[0]
	if entry.Version != wrapper.Version || p.Version != wrapper.Version || p.Identifier != wrapper.Name || p.RegistryType != "npm" || p.Transport.Type != "stdio" || p.PackageArguments[0].Value != "serve" {
		t.Errorf("the entry does not fit the package %s %s:\n%s", wrapper.Name, wrapper.Version, text)
	}
}

// TestSameBytes: the results of a build depend neither on the time nor on the directory.
func TestSameBytes(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	read := func() string {
		sums, err := os.ReadFile(filepath.Join(testBuild(t).out, "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		return string(sums)
	}
	first, again := read(), read()
	if first != again || strings.Count(first, "\n") != 8 {
		t.Errorf("two builds:\n%s\n%s", first, again)
	}
}

// TestOwnDirectories: a package owns the directories in which only cachebro has files, so that no
// directory is left when the package is removed.
func TestOwnDirectories(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	b := testBuild(t)
	docs, err := b.docs()
	if err != nil {
		t.Fatal(err)
	}
	own, shared := map[string]bool{}, map[string]bool{}
	for _, e := range b.contents(b.targets[0], docs) {
		dst, ok := e["dst"].(string)
		if !ok {
			t.Fatalf("an entry without a place: %v", e)
		}
		if e["type"] == "dir" {
			own[dst] = true
		} else {
			shared[path.Dir(dst)] = true
		}
	}
	for dir := range shared {
		for _, common := range []string{"/usr/bin", "/usr/share/man/man1", "/usr/share/bash-completion/completions", "/usr/share/zsh/vendor-completions", "/usr/share/fish/vendor_completions.d"} {
			if dir == common && own[dir] {
				t.Errorf("%s belongs to others too", dir)
			}
		}
		if strings.Contains(dir, "/cachebro") && !own[dir] {
			t.Errorf("%s stays behind", dir)
		}
	}
	for _, dir := range []string{"/usr/share/cachebro", "/usr/share/cachebro/hooks/plugin", "/usr/share/doc/cachebro"} {
		if !own[dir] {
			t.Errorf("%s stays behind", dir)
		}
	}
	if own["/usr/share"] || own["/usr/share/doc"] {
		t.Error("a directory of others")
	}
}

// TestFleetTarball: the program for many machines has its own tarball, with its document and the
// licences of its modules.
func TestFleetTarball(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	b := testBuild(t)
	for _, t2 := range []string{"linux-amd64", "darwin-arm64"} {
		base := "cachebro-fleet-1.2.3-" + t2
		files := unpack(t, filepath.Join(b.out, base+".tar.gz"))
		if len(files) != 4 || files[base+"/bin/cachebro-fleet"] != "/"+t2+"/cachebro-fleet" || !strings.HasPrefix(files[base+"/fleet.md"], "# ") ||
			files[base+"/LICENSE"] == "" || files[base+"/THIRD-PARTY-LICENSES"] == "" {
			t.Errorf("%s: %.200q", base, files)
		}
	}
}

// An existing release is replaced only by a complete release.
func TestWholeOrNothing(t *testing.T) {
	place := filepath.Join(t.TempDir(), "dist")
	make := func(text string, fails error) error {
		b := &build{out: place}
		return b.whole(t.Context(), func(context.Context) error {
			return os.WriteFile(filepath.Join(b.out, "package"), []byte(text), 0o644)
		}, func(context.Context) error { return fails })
	}
	want := func(text string) {
		t.Helper()
		got, err := os.ReadFile(filepath.Join(place, "package"))
		if err != nil || string(got) != text {
			t.Errorf("%q, %v", got, err)
		}
		if left, _ := filepath.Glob(place + ".*"); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	}
	if err := make("one", nil); err != nil {
		t.Fatal(err)
	}
	want("one")
	no := errors.New("no room")
	if err := make("two", no); !errors.Is(err, no) {
		t.Errorf("%v", err)
	}
	want("one")
	if err := make("three", nil); err != nil {
		t.Fatal(err)
	}
	want("three")
}
