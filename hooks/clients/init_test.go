package clients

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tailscale/hujson"
)

func testSetup(t *testing.T) Setup {
	t.Helper()
	home := t.TempDir()
	return Setup{Home: home, Backups: filepath.Join(home, "backups"), Exe: "/usr/local/bin/cachebro", OS: "linux",
		PathExists: func(p string) bool { _, err := os.Stat(p); return p != "" && err == nil }}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
}

// do plans and applies the changes for one client. It returns the first error.
func do(t *testing.T, s Setup, plan func(Setup, []string) ([]Change, error), client string) error {
	t.Helper()
	changes, err := plan(s, []string{client})
	if err != nil {
		t.Fatal(err)
	}
	if err := Apply(s, changes); err != nil {
		return err
	}
	for _, c := range changes {
		if c.Err != nil {
			if c.Hint == "" || !c.None() {
				t.Errorf("%s: error without a hint or with a change", c.Path)
			}
			return c.Err
		}
	}
	return nil
}

// configs are hand-made files. In each of them, everything that is not ours keeps its bytes, a
// second init changes nothing, and uninit restores exactly the original file.
var configs = map[string]string{
	"missing":            "\x00",
	"empty":              "",
	"blank":              " \n\t\n",
	"empty object":       "{}",
	"empty object, line": "{}\n",
	"spread empty":       "{\n}\n",
	"blank object":       "{   }",
	"null bytes none":    "{\"a\": null}\n",
	"one line":           `{"a":1,"b":[1,2]}`,
	"two blanks":         "{\n  \"theme\": \"dark\"\n}\n",
	"four blanks":        "{\n    \"theme\": \"dark\",\n    \"b\": {\n        \"c\": 1\n    }\n}\n",
	"tabs":               "{\n\t\"theme\": \"dark\"\n}\n",
	"no final newline":   "{\n  \"theme\": \"dark\"\n}",
	"line comments":      "// mine\n{\n  // about the theme\n  \"theme\": \"dark\" // nice\n  // the end\n}\n// after\n",
	"block comments":     "/* mine */ {\n  \"theme\": /* why */ \"dark\" /* not */\n}\n",
	"trailing comma":     "{\n  \"theme\": \"dark\",\n}\n",
	"comma and comment":  "{\n  \"theme\": \"dark\", // last\n}\n",
	"space before comma": "{\n  \"theme\": \"dark\" ,\n  \"b\": 1 ,\n}\n",
	"BOM":                "\xef\xbb\xbf{\n  \"theme\": \"dark\"\n}\n",
	"CRLF":               "{\r\n  \"theme\": \"dark\",\r\n  \"x\": {}\r\n}\r\n",
	"BOM and CRLF":       "\xef\xbb\xbf{\r\n\t\"theme\": \"dark\"\r\n}\r\n",
	"other servers":      "{\n  \"mcpServers\": {\n    \"files\": {\n      \"command\": \"npx\",\n      \"args\": [\"-y\", \"x\"]\n    }\n  },\n  \"z\": true\n}\n",
	"servers on a line":  `{"mcpServers":{"files":{"command":"npx"}},"z":true}` + "\n",
	"no servers":         "{\n  \"mcpServers\": {},\n  \"servers\": {},\n  \"mcp\": {},\n  \"context_servers\": {},\n  \"hooks\": {}\n}\n",
	"other hooks":        "{\n  \"hooks\": {\n    \"PostToolUse\": [\n      {\n        \"matcher\": \"Edit\",\n        \"hooks\": [{\"type\": \"command\", \"command\": \"gofmt -w .\"}] // format\n      }\n    ],\n    \"Stop\": []\n  }\n}\n",
	"hooks, commas":      "{\n  \"hooks\": {\n    \"Stop\": [\n      {\"hooks\": [],},\n    ],\n  },\n}\n",
	"unicode, escapes":   "{\n  \"n\\u0061me\": \"\\u00e9 ü \\\"q\\\" <b>&\",\n  \"big\": 12345678901234567890,\n  \"f\": 1.50\n}\n",
	"ours, by hand":      "{\n  \"mcpServers\": {\n    \"cachebro\": {\"command\": \"cachebro\", \"env\": {\"A\": \"1\"}}\n  }\n}\n",
	"deep":               "{\"a\":{\"b\":{\"c\":{\"d\":[[[{}]]]}}}}\n",
}

var broken = map[string]string{
	"not JSON":          "theme = dark\n",
	"cut":               "{\n  \"theme\": \"dark\",\n  \"b\": {\n",
	"array":             "[1, 2]\n",
	"string":            "\"x\"\n",
	"twice the key":     "{\"mcpServers\": {}, \"mcpServers\": {}, \"hooks\": {}, \"hooks\": {}, \"mcp\": 1, \"mcp\": 2, \"servers\": 1, \"servers\": 1, \"context_servers\": 1, \"context_servers\": 1}",
	"servers no object": "{\"mcpServers\": [], \"hooks\": [], \"mcp\": 1, \"servers\": \"x\", \"context_servers\": null}",
	"only a comment":    "// nothing yet\n",
}

// jsonClients returns the names of the clients whose configuration files are all JSON.
func jsonClients(t *testing.T) (names []string) {
	t.Helper()
	for _, spec := range clientSpecs {
		isOther := func(f file) bool { return !strings.HasPrefix(filepath.Ext(f.path), ".json") }
		if !slices.ContainsFunc(spec.files(testSetup(t)), isOther) {
			names = append(names, spec.name)
		}
	}
	return names
}

func TestInitKeepsAndTakesBack(t *testing.T) {
	for _, client := range jsonClients(t) {
		for name, text := range configs {
			t.Run(client+"/"+name, func(t *testing.T) {
				s := testSetup(t)
				spec, _ := clientNamed(client)
				files := spec.files(s)
				for _, f := range files {
					if text != "\x00" {
						writeFile(t, f.path, text)
					}
				}
				if err := do(t, s, PlanInit, client); err != nil {
					t.Fatal(err)
				}
				for _, f := range files {
					after, err := os.ReadFile(f.path)
					if err != nil {
						t.Fatal(err)
					}
					checkKept(t, text, string(after))
					if !bytes.Contains(after, []byte("/usr/local/bin/cachebro")) {
						t.Errorf("%s: our entry is missing:\n%s", f.path, after)
					}
				}
				again, err := PlanInit(s, []string{client})
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range again {
					if !c.None() {
						t.Errorf("a second init changes %s from\n%s\nto\n%s", c.Path, c.Before, c.After)
					}
				}
				// With other options, our entries are replaced, and all others stay.
				other := s
				other.Exe, other.HookOptions = "/opt/cachebro", []string{"--stop-line=off"}
				if err := do(t, other, PlanInit, client); err != nil {
					t.Fatal(err)
				}
				for _, f := range files {
					if after, _ := os.ReadFile(f.path); bytes.Contains(after, []byte("/usr/local")) || !bytes.Contains(after, []byte("/opt/cachebro")) {
						t.Errorf("%s is not renewed:\n%s", f.path, after)
					}
				}
				if err := do(t, s, PlanUninit, client); err != nil {
					t.Fatal(err)
				}
				for _, f := range files {
					after, err := os.ReadFile(f.path)
					if text == "\x00" {
						if !os.IsNotExist(err) {
							t.Errorf("%s is still there: %s", f.path, after)
						}
					} else if string(after) != text {
						t.Errorf("%s after uninit:\n%q\nwant\n%q", f.path, after, text)
					}
				}
				if left, _ := os.ReadDir(s.Home); text == "\x00" && len(left) > 0 {
					t.Errorf("left behind: %v", left)
				}
				if _, err := os.Lstat(s.Backups); err == nil {
					t.Error("the backups are left")
				}
			})
		}
	}
}

// checkKept checks that every comment of the old file is in the new one, in order, and that all
// settings except ours are the same.
func checkKept(t *testing.T, before, after string) {
	t.Helper()
	var old, new map[string]any
	b, err := hujson.Standardize(bytes.TrimPrefix([]byte(after), []byte("\xef\xbb\xbf")))
	if err != nil || json.Unmarshal(b, &new) != nil {
		t.Fatalf("the result does not parse: %v\n%s", err, after)
	}
	if strings.HasPrefix(before, "\xef\xbb\xbf") != strings.HasPrefix(after, "\xef\xbb\xbf") {
		t.Error("the BOM came or went")
	}
	if strings.Contains(before, "\r\n") && strings.Count(after, "\n") != strings.Count(after, "\r\n") {
		t.Errorf("mixed line ends: %q", after)
	}
	if b, err = hujson.Standardize([]byte(strings.TrimPrefix(before, "\xef\xbb\xbf"))); err != nil || json.Unmarshal(b, &old) != nil {
		return // empty
	}
	for _, container := range []string{"mcpServers", "servers", "mcp", "context_servers", "hooks"} {
		strip(new, container, old[container] != nil)
		strip(old, container, true)
	}
	if old["version"] == nil {
		delete(new, "version") // init adds it, because Cursor needs one
	}
	if !reflect.DeepEqual(old, new) {
		t.Errorf("other settings changed:\n%v\n%v", old, new)
	}
	rest := after
	for _, line := range strings.Split(before, "\n") {
		for _, part := range strings.Split(line, "//")[1:] {
			i := strings.Index(rest, strings.TrimSpace(part))
			if i < 0 {
				t.Errorf("the comment %q is gone:\n%s", part, after)
				break
			}
			rest = rest[i:]
		}
	}
}

// strip removes our entries from a tree.
func strip(tree map[string]any, container string, keep bool) {
	m, ok := tree[container].(map[string]any)
	if !ok {
		return
	}
	delete(m, "cachebro")
	for event, v := range m {
		groups, ok := v.([]any)
		if !ok {
			continue
		}
		var left []any
		for _, g := range groups {
			if raw, err := json.Marshal(g); err == nil && !isOurGroup(raw) {
				left = append(left, g)
			}
		}
		if m[event] = left; len(left) == 0 {
			delete(m, event)
		}
	}
	if len(m) == 0 && !keep {
		delete(tree, container)
	}
}

// Without the backup (on another machine, or after the home directory was restored) uninit finds
// our entries by their structure. For ordinary files, the result is exactly the original file.
func TestUninitWithoutBackup(t *testing.T) {
	exact := map[string]bool{"two blanks": true, "four blanks": true, "tabs": true, "no final newline": true, "line comments": true,
		"block comments": true, "trailing comma": true, "comma and comment": true, "BOM": true, "CRLF": true, "BOM and CRLF": true,
		"other servers": true, "empty object": true, "empty object, line": true, "unicode, escapes": true}
	for _, client := range jsonClients(t) {
		for name, text := range configs {
			if text == "\x00" || name == "ours, by hand" {
				continue
			}
			s := testSetup(t)
			spec, _ := clientNamed(client)
			for _, f := range spec.files(s) {
				writeFile(t, f.path, text)
			}
			if err := do(t, s, PlanInit, client); err != nil {
				t.Fatal(err)
			}
			os.RemoveAll(s.Backups)
			if err := do(t, s, PlanUninit, client); err != nil {
				t.Fatal(err)
			}
			for _, f := range spec.files(s) {
				after, err := os.ReadFile(f.path)
				if err != nil {
					t.Fatal(err)
				}
				if bytes.Contains(after, []byte("cachebro")) {
					t.Errorf("%s, %s: still there:\n%s", client, name, after)
				}
				if exact[name] && string(after) != text {
					t.Errorf("%s, %s:\n%q\nwant\n%q", client, name, after, text)
				}
			}
		}
	}
}

// If somebody edited a file after init, uninit removes our entries and the edit stays.
func TestUninitAfterEdit(t *testing.T) {
	s := testSetup(t)
	path := filepath.Join(s.Home, ".cursor", "mcp.json")
	writeFile(t, path, "{\n  \"mcpServers\": {}\n}\n")
	if err := do(t, s, PlanInit, "cursor"); err != nil {
		t.Fatal(err)
	}
	b, _ := os.ReadFile(path)
	writeFile(t, path, strings.Replace(string(b), "{\n", "{\n  \"mine\": 1, // new\n", 1))
	if err := do(t, s, PlanUninit, "cursor"); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(path); string(b) != "{\n  \"mine\": 1, // new\n  \"mcpServers\": {}\n}\n" {
		t.Errorf("got %q", b)
	}
}

// A client adds a person's hook to the group with the same matcher, which may be ours. uninit leaves
// only the person's command there, and a further init registers no event twice. uninit used to leave
// such a group as it was, so cachebro's hook went on running.
func TestHookAddedToOurGroup(t *testing.T) {
	const mine = `{"type": "command", "command": "notify-send done"}`
	for _, c := range []struct {
		plan func(Setup, []string) ([]Change, error)
		ours int
	}{{PlanInit, 1}, {PlanUninit, 0}} {
		s := testSetup(t)
		settings := filepath.Join(s.Home, ".claude", "settings.json")
		if err := do(t, s, PlanInit, "claude"); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(settings)
		if err != nil {
			t.Fatal(err)
		}
		before, after, _ := strings.Cut(string(b), `"Stop": [`)
		writeFile(t, settings, before+`"Stop": [`+strings.Replace(after, `"hooks": [`, `"hooks": [`+mine+`, // mine`, 1))
		if err := do(t, s, c.plan, "claude"); err != nil {
			t.Fatal(err)
		}
		b, err = os.ReadFile(settings)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(b), " hook Stop"); n != c.ours || strings.Count(string(b), mine) != 1 {
			t.Errorf("%d of our hooks, want %d:\n%s", n, c.ours, b)
		}
	}
}

func TestBrokenFilesAreLeftAlone(t *testing.T) {
	for _, client := range jsonClients(t) {
		for name, text := range broken {
			s := testSetup(t)
			spec, _ := clientNamed(client)
			for _, f := range spec.files(s) {
				writeFile(t, f.path, text)
			}
			if err := do(t, s, PlanInit, client); err == nil || !strings.Contains(err.Error(), "left alone") {
				t.Errorf("%s, %s: %v", client, name, err)
			}
			for _, f := range spec.files(s) {
				if b, _ := os.ReadFile(f.path); string(b) != text {
					t.Errorf("%s, %s: changed to %s", client, name, b)
				}
			}
		}
	}
}
