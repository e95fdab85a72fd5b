package clients

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestUnusualFiles(t *testing.T) {
	s := testSetup(t)
	path := filepath.Join(s.Home, ".cursor", "mcp.json")
	real := filepath.Join(s.Home, "dotfiles", "mcp.json")
	writeFile(t, real, "{}\n")
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, path); err != nil {
		t.Fatal(err)
	}
	if err := do(t, s, PlanInit, "cursor"); err != nil {
		t.Fatal(err)
	}
	fi, err := os.Lstat(path)
	if b, _ := os.ReadFile(real); err != nil || fi.Mode()&os.ModeSymlink == 0 || !bytes.Contains(b, []byte("cachebro")) {
		t.Errorf("the link was not followed: %v %v %s", fi, err, b)
	}
	if fi, _ := os.Stat(real); fi.Mode().Perm() != 0o640 {
		t.Errorf("mode became %v", fi.Mode())
	}
	if err := do(t, s, PlanUninit, "cursor"); err != nil {
		t.Fatal(err)
	}
	os.Remove(real)
	if err := do(t, s, PlanInit, "cursor"); err == nil || !strings.Contains(err.Error(), "symlink") {
		t.Errorf("dangling link: %v", err)
	}
	os.Remove(path)
	writeFile(t, path, "{}\n")
	if err := os.Chmod(path, 0o444); err != nil {
		t.Fatal(err)
	}
	if err := do(t, s, PlanInit, "cursor"); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("read-only: %v", err)
	}
	os.Remove(path)
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := do(t, s, PlanInit, "cursor"); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("directory: %v", err)
	}
	if _, err := PlanInit(s, []string{"emacs"}); err == nil || !strings.Contains(err.Error(), "cursor") {
		t.Errorf("unknown client: %v", err)
	}
}

// A client gets all of its files or none, because a server without its hooks does only half of the
// work. uninit does not fail for settings that cannot be written if they contain none of our
// entries.
func TestAllFilesOfAClientOrNone(t *testing.T) {
	s := testSetup(t)
	server, settings := filepath.Join(s.Home, ".claude.json"), filepath.Join(s.Home, ".claude", "settings.json")
	writeFile(t, server, "{}\n")
	writeFile(t, settings, "{}\n")
	if err := os.Chmod(settings, 0o444); err != nil {
		t.Fatal(err)
	}
	changes, err := PlanInit(s, []string{"claude"})
	if err != nil {
		t.Fatal(err)
	}
	if changes[0].Err == nil || !strings.Contains(changes[0].Err.Error(), "needs "+settings) || !strings.HasPrefix(changes[1].Hint, "chmod u+w ") {
		t.Errorf("server: %v; settings: %v (%s)", changes[0].Err, changes[1].Err, changes[1].Hint)
	}
	if err := Apply(s, changes); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(server); string(b) != "{}\n" {
		t.Errorf("the server was registered alone: %s", b)
	}
	if err := do(t, s, PlanUninit, "claude"); err != nil {
		t.Errorf("uninit of what was not written: %v", err)
	}

	// If a file cannot be written, the client's other files are restored.
	if err := os.Chmod(settings, 0o644); err != nil {
		t.Fatal(err)
	}
	changes, err = PlanInit(s, []string{"claude"})
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, settings, "{\"new\": 1}\n")
	if err := Apply(s, changes); err == nil || !strings.Contains(err.Error(), "changed by another program") {
		t.Errorf("got %v", err)
	}
	if b, _ := os.ReadFile(server); string(b) != "{}\n" {
		t.Errorf("the server stayed registered: %s", b)
	}
	if _, known := s.backupOf(server); known {
		t.Error("a backup of what was not written is left")
	}
}

// A file that changes between the preview and the user's yes is not overwritten.
func TestApplyChecksAgain(t *testing.T) {
	s := testSetup(t)
	path := filepath.Join(s.Home, ".cursor", "mcp.json")
	writeFile(t, path, "{}\n")
	changes, err := PlanInit(s, []string{"cursor"})
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, "{\"new\": 1}\n")
	if err := Apply(s, changes); err == nil || !strings.Contains(err.Error(), "changed by another program") {
		t.Errorf("got %v", err)
	}
	if b, _ := os.ReadFile(path); string(b) != "{\"new\": 1}\n" {
		t.Errorf("overwritten: %s", b)
	}
}

func TestProjectScopeAndDetection(t *testing.T) {
	s := testSetup(t)
	if got := FoundClients(s); len(got) != 0 {
		t.Errorf("found %v in an empty home", got)
	}
	if err := os.MkdirAll(filepath.Join(s.Home, ".codex"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.HasProgram = func(n string) bool { return n == "claude" }
	if got := FoundClients(s); !reflect.DeepEqual(got, []string{"claude", "codex"}) {
		t.Errorf("found %v", got)
	}
	s.Project, s.StatusLine = t.TempDir(), true
	changes, err := PlanInit(s, Clients())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range changes {
		rel, err := filepath.Rel(s.Project, c.Path)
		if err != nil || c.Err != nil {
			t.Errorf("%s: %v %v", c.Path, err, c.Err)
		}
		names = append(names, rel)
	}
	want := ".mcp.json .claude/settings.json .cursor/mcp.json .cursor/hooks.json opencode.json .gemini/settings.json .qwen/settings.json .codex/config.toml .codex/hooks.json .vscode/mcp.json .zed/settings.json"
	if strings.Join(names, " ") != want {
		t.Errorf("files %v", names)
	}
	if err := Apply(s, changes); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, c := range changes {
		rel, _ := filepath.Rel(s.Project, c.Path)
		b, _ := os.ReadFile(c.Path)
		if !strings.HasSuffix(rel, "settings.json") || !strings.Contains(rel, "claude") {
			all.WriteString("== " + rel + "\n" + string(b))
		}
	}
	golden(t, "clients.golden", all.String())
}

// TestHandMadeFiles checks what init makes of each hand-made file, byte for byte. In the golden
// file, "<CR>" and "<BOM>" stand for characters that people could not see.
func TestHandMadeFiles(t *testing.T) {
	all := maps.Clone(configs)
	maps.Copy(all, broken)
	var out strings.Builder
	show := func(b []byte) {
		text := strings.NewReplacer("\r", "<CR>", "\xef\xbb\xbf", "<BOM>").Replace(string(b))
		for line := range strings.Lines(text) {
			out.WriteString("  | " + line)
		}
		if !strings.HasSuffix(text, "\n") {
			out.WriteString("<no final newline>\n")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s := testSetup(t)
		path := filepath.Join(s.Home, ".codeium", "windsurf", "mcp_config.json")
		fmt.Fprintf(&out, "== %s\n", name)
		if text := all[name]; text != "\x00" {
			writeFile(t, path, text)
			show([]byte(text))
		}
		err := do(t, s, PlanInit, "windsurf")
		if err != nil {
			fmt.Fprintf(&out, "-> error: %s\n\n", strings.ReplaceAll(err.Error(), s.Home, "~"))
			if b, err := os.ReadFile(path); err != nil || string(b) != all[name] {
				t.Errorf("%s was touched: %q, %v", name, b, err)
			}
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("->\n")
		show(b)
		out.WriteString("\n")
	}
	if len(all) < 30 {
		t.Errorf("%d files", len(all))
	}
	golden(t, "handmade.golden", out.String())
}
