package setup

import (
	"bytes"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cachebro/cmd/cachebro/cli"
)

// The launchd agent is well-formed and contains the paths unchanged. It is written and removed
// without a trace, and a path that XML cannot represent is refused.
func TestLaunchAgent(t *testing.T) {
	var out bytes.Buffer
	state := "/Users/a b/<s>&\"'\u00e9]]>"
	e := &cli.Env{Stdout: &out, Exe: "/Applications/R&D <x>/cachebro", Getenv: func(name string) string {
		if name == "XDG_STATE_HOME" {
			return state
		}
		return ""
	}}
	text, err := plist(e)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		tok, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		switch v := tok.(type) {
		case xml.StartElement:
			all = append(all, "<"+v.Name.Local+">")
		case xml.CharData:
			if s := strings.TrimSpace(string(v)); s != "" {
				all = append(all, s)
			}
		}
	}
	want := []string{"<plist>", "<dict>", "<key>", "Label", "<string>", "dev.cachebro.mount",
		"<key>", "ProgramArguments", "<array>", "<string>", e.Exe, "<string>", "mount", "<string>", "--all",
		"<key>", "RunAtLoad", "<true>", "<key>", "AbandonProcessGroup", "<true>",
		"<key>", "EnvironmentVariables", "<dict>", "<key>", "XDG_STATE_HOME", "<string>", state}
	if !slices.Equal(all, want) {
		t.Errorf("%q\nnot %q", all, want)
	}
	dir := filepath.Join(t.TempDir(), "Library", "LaunchAgents")
	u := loginUnit{file: filepath.Join(dir, launchLabel+".plist"), text: text, reader: "launchd"}
	if err := u.enable(e); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(u.file); string(b) != text || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if err := u.disable(e); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); len(left) != 0 || err != nil {
		t.Errorf("%v, %v", left, err)
	}
	if s := out.String(); strings.Count(s, "launchd") != 2 || strings.Contains(s, "systemd") {
		t.Error(s)
	}
	for _, odd := range []string{"/a\nb", "/a\x01", "/a\xff"} {
		e.Exe = odd
		if _, err := plist(e); err == nil {
			t.Errorf("%q was said", odd)
		}
	}
}
