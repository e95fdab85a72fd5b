package clients

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var tomls = map[string]string{
	"missing":           "\x00",
	"empty":             "",
	"top level":         "model = \"o4\" # the model\n",
	"no newline":        "model = \"o4\"",
	"comments":          "# mine\n\n[tui]\n# theme\ntheme = \"dark\"\n\n# the end\n",
	"CRLF":              "model = \"o4\"\r\n\r\n[tui]\r\ntheme = \"dark\"\r\n",
	"BOM":               "\xef\xbb\xbfmodel = \"o4\"\n",
	"other servers":     "[mcp_servers.files]\ncommand = \"npx\"\nargs = [\n  \"-y\", # yes\n]\n\n[mcp_servers.files.env]\nA = \"1\"\n",
	"servers header":    "[mcp_servers]\n\n[mcp_servers.x]\ncommand = \"x\"\n",
	"array of tables":   "[[a]]\nb = 1\n\n[[a]]\nb = 2\n",
	"strings":           "a = '''\n[mcp_servers.cachebro]\n'''\nb = \"\\u00e9\"\n",
	"ours in the midst": "[mcp_servers.cachebro]\ncommand = \"old\"\nargs = []\n\n[mcp_servers.cachebro.env]\nX = \"1\"\n\n# about y\n[y]\nz = 1\n",
	"quoted key":        "[mcp_servers.\"cachebro\"]\ncommand = \"old\"\n",
}

func TestCodex(t *testing.T) {
	for name, text := range tomls {
		t.Run(name, func(t *testing.T) {
			s := testSetup(t)
			path := filepath.Join(s.Home, ".codex", "config.toml")
			if text != "\x00" {
				writeFile(t, path, text)
			}
			if err := do(t, s, PlanInit, "codex"); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			tree, err := parseTOML(b)
			if err != nil {
				t.Fatal(err)
			}
			if lookupTOML(tree, []string{"mcp_servers", "cachebro", "command"}) != s.Exe {
				t.Errorf("our table is missing:\n%s", b)
			}
			if strings.Contains(text, "\r\n") && strings.Count(string(b), "\n") != strings.Count(string(b), "\r\n") {
				t.Errorf("mixed line ends: %q", b)
			}
			if !strings.Contains(name, "ours") && !strings.Contains(name, "quoted") && text != "\x00" && !strings.HasPrefix(string(b), text) {
				t.Errorf("what was there changed:\n%s", b)
			}
			if strings.Contains(text, "# about y") && !strings.Contains(string(b), "# about y\n[y]\nz = 1\n") {
				t.Errorf("the neighbour's comment is gone:\n%s", b)
			}
			again, err := PlanInit(s, []string{"codex"})
			if err != nil || !again[0].None() {
				t.Errorf("a second init changes it: %v\n%s", err, again[0].After)
			}
			if err := do(t, s, PlanUninit, "codex"); err != nil {
				t.Fatal(err)
			}
			b, err = os.ReadFile(path)
			if text == "\x00" && !os.IsNotExist(err) || text != "\x00" && string(b) != text {
				t.Errorf("after uninit: %q, want %q", b, text)
			}
		})
	}
}

// Uninit also works without a backup, by the structure of the file alone.
func TestCodexWithoutBackup(t *testing.T) {
	for _, name := range []string{"top level", "comments", "CRLF", "BOM", "other servers", "array of tables", "strings"} {
		s := testSetup(t)
		path := filepath.Join(s.Home, ".codex", "config.toml")
		writeFile(t, path, tomls[name])
		if err := do(t, s, PlanInit, "codex"); err != nil {
			t.Fatal(err)
		}
		os.RemoveAll(s.Backups)
		if err := do(t, s, PlanUninit, "codex"); err != nil {
			t.Fatal(err)
		}
		if b, _ := os.ReadFile(path); string(b) != tomls[name] {
			t.Errorf("%s: %q, want %q", name, b, tomls[name])
		}
	}
}

func TestCodexBroken(t *testing.T) {
	for name, text := range map[string]string{
		"not TOML":     "{\"a\": 1}\n",
		"cut":          "[mcp_servers\n",
		"twice":        "a = 1\na = 2\n",
		"inline table": "mcp_servers = { x = { command = \"x\" } }\n",
		"ours inline":  "mcp_servers = { cachebro = { command = \"x\" } }\n",
		"no table":     "mcp_servers = 1\n",
	} {
		s := testSetup(t)
		path := filepath.Join(s.Home, ".codex", "config.toml")
		writeFile(t, path, text)
		if err := do(t, s, PlanInit, "codex"); err == nil || !strings.Contains(err.Error(), "left alone") {
			t.Errorf("%s: %v", name, err)
		}
		if b, _ := os.ReadFile(path); string(b) != text {
			t.Errorf("%s: changed to %q", name, b)
		}
	}
}
