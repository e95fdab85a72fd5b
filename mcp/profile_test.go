package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"cachebro/cmd/cachebro/daemon/attribution"
	"cachebro/store/tokens"
)

// Every context pays for the schema, so it must be small.
func TestProfiles(t *testing.T) {
	for _, tc := range []struct {
		profile string
		limit   int // bytes of the list
		tokens  int // that the list and the instructions take in a context
	}{{ProfileRead, 500, 60}, {ProfileSafety, 1700, 0}, {ProfileDefault, 1100, 150}, {ProfileAll, 0, 0}} {
		t.Run(tc.profile, func(t *testing.T) {
			p := connect(t, Options{Root: project(t, nil), Profile: tc.profile})
			got := p.call("tools/list", map[string]any{}).Result
			if n := len(got); tc.limit > 0 && n > tc.limit {
				t.Errorf("tools/list has %d bytes, limit %d", n, tc.limit)
			} else {
				t.Logf("%d bytes", n)
			}
			if n := inContext(t, got) + tokens.EstimateString(instructions(tc.profile)); tc.tokens > 0 && n > tc.tokens {
				t.Errorf("%d tokens in each context, limit %d", n, tc.tokens)
			} else {
				t.Logf("%d tokens", n)
			}
			golden := "testdata/tools-" + tc.profile + ".json"
			var nice bytes.Buffer
			if err := json.Indent(&nice, got, "", "  "); err != nil {
				t.Fatal(err)
			}
			nice.WriteByte('\n')
			if *update {
				if err := os.WriteFile(golden, nice.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(want, nice.Bytes()) {
				t.Errorf("tools/list differs from %s; look at it, then run with -update:\n%s", golden, nice.Bytes())
			}
		})
	}
}

// inContext returns how many tokens of a context the tools of a list take, in the form in which
// clients put them there.
func inContext(t *testing.T, list []byte) (n int) {
	t.Helper()
	var l struct {
		Tools []struct {
			Name, Description string
			InputSchema       json.RawMessage
		}
	}
	if err := json.Unmarshal(list, &l); err != nil {
		t.Fatal(err)
	}
	all := ""
	for _, tl := range l.Tools {
		all += fmt.Sprintf("\n{\"name\":\"mcp__cachebro__%s\",\"description\":%q,\"input_schema\":%s}", tl.Name, tl.Description, tl.InputSchema)
	}
	return tokens.EstimateString(all)
}

func TestSchemaRules(t *testing.T) {
	for _, tl := range toolTable {
		var schema struct {
			Type       string
			Properties map[string]json.RawMessage
			Required   []string
		}
		if err := json.Unmarshal(schemaOf(tl.handler.args, false), &schema); err != nil || schema.Type != "object" {
			t.Errorf("%s: schema: %v", tl.name, err)
		}
		// A client replaces the results of tools that have this parameter.
		if _, has := schema.Properties["file_path"]; has {
			t.Errorf("%s has a parameter file_path", tl.name)
		}
		if tl.title == "" || tl.desc == "" || len(tl.desc) > 2048 {
			t.Errorf("%s: title or description", tl.name)
		}
		structured := tl.name == "cache_status" || tl.name == "get_delta_metrics"
		if (tl.output != nil) != structured {
			t.Errorf("%s: outputSchema %v", tl.name, tl.output != nil)
		}
		if tl.reads && tl.destroys {
			t.Errorf("%s is marked as read-only and as destructive", tl.name)
		}
		// The daemon attributes the server's writes to a tool's call only if WritesItself lists the
		// tool.
		if tl.destroys && !attribution.WritesItself("mcp__cachebro__"+tl.name) {
			t.Errorf("%s writes files, and attribution.WritesItself does not know it", tl.name)
		}
	}
	for _, profile := range []string{ProfileRead, ProfileSafety, ProfileDefault, ProfileAll} {
		if n := len(instructions(profile)); n > 1024 {
			t.Errorf("instructions of %s: %d bytes", profile, n)
		}
		if strings.Contains(instructions(profile), "must") {
			t.Errorf("instructions of %s give orders", profile)
		}
	}
}
