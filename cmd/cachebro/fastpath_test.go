package main

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestFastPath checks that a hook ends before the libraries for the index and the pages are
// initialised, because that would take most of its time. It also checks that no process compiles the
// schemas of the MCP library's validator, which would take 5 ms.
func TestFastPath(t *testing.T) {
	heavy := []string{"github.com/blevesearch/bleve/v2/index/scorch", "github.com/yuin/goldmark/extension", "cachebro/search"}
	initialised := func(args ...string) string {
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
		cmd.Stdin = strings.NewReader(`{"hook_event_name":"Stop","session_id":"nobody","cwd":"/"}`)
		var out, errText bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errText
		if err := cmd.Run(); err != nil && args[0] != "fsmonitor" { // it fails, because there is no mount to ask
			t.Fatalf("%s: %v", args, err)
		}
		if args[0] != "-test.list=NoSuchTest" && out.Len() > 0 {
			t.Errorf("%s says %q", args, out.String())
		}
		return errText.String()
	}
	all := initialised("-test.list=NoSuchTest")
	for _, name := range heavy {
		if !strings.Contains(all, "init "+name+" @") {
			t.Errorf("%s is not initialised by the whole program either: choose another", name)
		}
	}
	if schemas := regexp.MustCompile(`init github.com/santhosh-tekuri/jsonschema/.* (\d{3,}) allocs`).FindString(all); schemas != "" {
		t.Errorf("go.mod does not replace the validator: %s", schemas)
	}
	for _, args := range [][]string{{"hook", "Stop"}, {"hook", "PreToolUse", "--hold"}, {"statusline"}, {"fsmonitor", "2", "token"}} {
		few := initialised(args...)
		if !strings.Contains(few, "init cachebro/hooks @") {
			t.Errorf("%s: hooks are not initialised: %s", args, few)
		}
		for _, name := range heavy {
			if strings.Contains(few, "init "+name+" @") {
				t.Errorf("%s: %s is initialised before", args, name)
			}
		}
	}
}
