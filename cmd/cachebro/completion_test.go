package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"cachebro/cmd/cachebro/cli"
)

// TestDescribe: each command tells its flags without being run; what it would do
// with "--help" is the same as with our question.
func TestDescribe(t *testing.T) {
	var out bytes.Buffer
	e := &cli.Env{Stdout: &out, Stderr: &out, Name: "help", Args: []string{"--json"}, Getenv: func(string) string { return "" }}
	if err := help(e); err != nil {
		t.Fatal(err)
	}
	var all []described
	if err := json.Unmarshal(out.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	visible := slices.DeleteFunc(commands(), func(c cli.Command) bool { return c.Group == "" })
	if len(all) != len(visible) {
		t.Errorf("%d commands described, %d in help", len(all), len(visible))
	}
	for _, d := range all {
		out.Reset()
		sub := *e
		sub.Name, sub.Args = d.Name, []string{"--help"}
		if status := run(&sub); status != 0 {
			t.Errorf("%s --help: status %d: %s", d.Name, status, out.String())
		}
		help := out.String()
		for _, f := range d.Flags {
			if f.Usage == "" {
				t.Errorf("%s --%s: no word on what it does", d.Name, f.Name)
			}
			if !strings.Contains(help, "--"+f.Name) {
				t.Errorf("%s --%s is not in its help", d.Name, f.Name)
			}
		}
		_, flags, _ := strings.Cut(help, "\nFlags:\n")
		flags = "\n" + flags
		if n := strings.Count(flags, "\n      --") + strings.Count(flags, "\n  -"); n != len(d.Flags) {
			t.Errorf("%s: %d flags described, %d in its help:\n%s", d.Name, len(d.Flags), n, help)
		}
		// The man page has the same flags, each with the same words.
		page := commandPage(d)
		if n := strings.Count(page, "\n.TP\n"); n != len(d.Flags) {
			t.Errorf("%s: %d flags, %d in its man page:\n%s", d.Name, len(d.Flags), n, page)
		}
		for _, f := range d.Flags {
			if !strings.Contains(page, `\fB`+roff("--"+f.Name)+`\fR`) || !strings.Contains(page, "\n"+roff(f.Usage)) {
				t.Errorf("%s --%s is not in its man page:\n%s", d.Name, f.Name, page)
			}
		}
		if !strings.Contains(wholePage(all), `\fB`+roff("cachebro-"+d.Name)+`\fR(1)`) {
			t.Errorf("%s is not in the man page of cachebro", d.Name)
		}
		// The completion offers each of them.
		out.Reset()
		sub.Name, sub.Args = "__complete", []string{"--", d.Name, "--"}
		if status := run(&sub); status != 0 {
			t.Fatalf("complete %s: status %d", d.Name, status)
		}
		if strings.Contains(d.Args, "COMMAND") && !strings.Contains(out.String(), "--") {
			t.Errorf("%s: flags are not completed:\n%s", d.Name, out.String())
		}
		for _, f := range d.Flags {
			if !strings.Contains(out.String(), "\n--"+f.Name+"\t") {
				t.Errorf("%s --%s is not completed", d.Name, f.Name)
			}
		}
	}
}

func TestSplitLine(t *testing.T) {
	for line, want := range map[string][]string{
		"":                       {""},
		"a":                      {"a"},
		"a ":                     {"a", ""},
		`a  b\ c 'd e' "f\"g`:    {"a", "b c", "d e", `f"g`},
		`a 'it'\''s' "x y"z`:     {"a", "it's", "x yz"},
		`a --dir="my dir"/sub \`: {"a", "--dir=my dir/sub", `\`},
	} {
		if got := splitLine(line); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
