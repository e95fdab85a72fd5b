package hooks

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cachebro/store/wire"
)

// refusing is a client that shows the model its own text instead of a replacement while deaf is set.
type refusing struct {
	*project
	deaf bool
	kind string
}

func newRefusing(t *testing.T) *refusing {
	p := &refusing{project: newProject(t), kind: wire.ReadUnchanged}
	p.serve(answers{
		wire.MRead: func(*wire.Request) (any, []byte, error) {
			return wire.ReadAnswer{Kind: p.kind, Start: 3, NumLines: 1, TotalLines: 245, Note: "cachebro: a.go changed."}, []byte("cachebro: not repeated."), nil
		},
		wire.MCommit: func(r *wire.Request) (any, []byte, error) {
			var q wire.Commit
			if err := r.Decode(&q); err != nil || !p.deaf {
				return nil, nil, err
			}
			return wire.CommitAnswer{Own: []string{q.Calls[0].ToolUse}}, nil, nil
		},
	})
	return p
}

// call makes one call and the batch that delivers it. It returns whether the result was replaced.
func (p *refusing) call(tool, use string) bool {
	p.t.Helper()
	event := strings.Replace(readEvent, `one\ntwo\n`, strings.Repeat(`one\ntwo\n`, 100), 1)
	if tool == "Bash" {
		event = strings.Replace(bashEvent, "OUT", strings.Repeat("z", 500), 1)
	}
	event = strings.NewReplacer(`"t1"`, `"`+use+`"`, `"t2"`, `"`+use+`"`).Replace(event)
	out := p.run(event).stdout
	silent(p.t, p.run(`{"session_id":"s1","cwd":"PROJ","hook_event_name":"PostToolBatch","tool_calls":[{"tool_name":"`+tool+`","tool_input":{"command":"cat a.go"},"tool_use_id":"`+use+`","tool_response":"x"}]}`))
	return strings.Contains(out, "updatedToolOutput")
}

// If a version of a client did not show the model one form of replacement (a stub, lines, output of
// Bash), the hooks do not send that version this form again. Other forms and other versions are not
// affected, and after a week the form is tried once more.
func TestRefusedFormIsNotSentAgain(t *testing.T) {
	p := newRefusing(t)
	p.deaf = true
	for i, c := range []struct {
		tool, use, kind string
		want            bool
	}{
		{"Read", "u1", wire.ReadUnchanged, true},
		{"Read", "u2", wire.ReadUnchanged, false},
		{"Read", "u3", wire.ReadSpan, true},
		{"Read", "u4", wire.ReadSpan, false},
		{"Bash", "u5", wire.ReadUnchanged, true},
		{"Bash", "u6", wire.ReadUnchanged, false},
	} {
		p.kind = c.kind
		if got := p.call(c.tool, c.use); got != c.want {
			t.Errorf("%d. %s %s: replaced %v, want %v", i, c.tool, c.kind, got, c.want)
		}
	}
	if all := Refusals(p.paths, p.now); len(all) != 3 || all[0].Client != "claude-code/2.1.197" {
		t.Errorf("%+v", all)
	}
	p.kind, p.deaf = wire.ReadUnchanged, false
	p.envs["AI_AGENT"] = "claude-code_2-1-198_harness"
	if !p.call("Read", "u7") {
		t.Error("a version that refused nothing is not served")
	}
	p.envs["AI_AGENT"] = "claude-code_2-1-197_harness"
	p.now = p.now.Add(8 * 24 * time.Hour)
	if !p.call("Read", "u8") || len(Refusals(p.paths, p.now)) != 0 {
		t.Error("a week later it is not tried again")
	}
	if err := ForgetRefusals(p.paths); err != nil || ForgetRefusals(p.paths) != nil {
		t.Error(err)
	}
}

// A replacement that was never printed does not count as refused. A hook prints none if it runs out
// of time, or if its sentence would be longer than the text.
func TestOnlyWhatWasSentIsRefused(t *testing.T) {
	p := newRefusing(t)
	p.deaf = true
	p.run(readEvent) // the sentence is longer than the file's three lines
	silent(t, p.run(`{"session_id":"s1","cwd":"PROJ","hook_event_name":"PostToolBatch","tool_calls":[{"tool_name":"Read","tool_input":{},"tool_use_id":"t1","tool_response":"x"}]}`))
	if all := Refusals(p.paths, p.now); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

// A client whose version changes each week must not make the list grow without limit.
func TestRefusalsAreBounded(t *testing.T) {
	p := newRefusing(t)
	for i := range maxRefusals + 5 {
		p.envs["AI_AGENT"] = "claude-code_2-1-" + strings.Repeat("1", 1+i%9) + string(rune('0'+i/9))
		c := &call{scene: scene{env: p.env("", nil), root: p.root}}
		c.noteRefusal(formShell)
	}
	all := Refusals(p.paths, p.now)
	if len(all) > maxRefusals || !slices.ContainsFunc(all, func(r Refusal) bool { return r.Client == clientName(p.envs["AI_AGENT"]) }) {
		t.Errorf("%d kept", len(all))
	}
}
