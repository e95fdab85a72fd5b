package hooks

import (
	"os"
	"path/filepath"
	"testing"

	"cachebro/store/wire"
)

// second is another project of the same user.
func (p *project) second() *project {
	p.t.Helper()
	o := &project{t: p.t, root: filepath.Join(filepath.Dir(p.root), "second"), paths: p.paths, now: p.now, patient: true, envs: p.envs}
	if err := os.Mkdir(o.root, 0o755); err != nil {
		p.t.Fatal(err)
	}
	if _, err := o.paths.MakeState(o.root); err != nil {
		p.t.Fatal(err)
	}
	return o
}

// An event belongs to the project of the file that the call names, otherwise to the project of the
// session's working directory. CLAUDE_PROJECT_DIR only says where the session began.
func TestProjectOfEvent(t *testing.T) {
	p := newProject(t)
	o := p.second()
	for name, tt := range map[string]struct {
		ev   event
		want string
	}{
		"only the variable":       {event{cwd: "/"}, p.root},
		"moved":                   {event{cwd: o.root}, o.root},
		"a file of another":       {event{cwd: p.root, input: fields{"file_path": []byte(`"` + o.root + `/a/b.txt"`)}}, o.root},
		"a file of this one":      {event{cwd: o.root, input: fields{"notebook_path": []byte(`"../proj/b.ipynb"`)}}, p.root},
		"a file of none":          {event{cwd: o.root, input: fields{"path": []byte(`"/dev/null"`)}}, o.root},
		"a file of our server":    {event{cwd: p.root, tool: "mcp__cachebro__read_file", input: fields{"path": []byte(`"` + o.root + `/a"`)}}, o.root},
		"a name for our server":   {event{cwd: p.root, tool: "mcp__cachebro__read_file", input: fields{"path": []byte(`"../second/a"`)}}, p.root},
		"a status line's project": {event{cwd: "/", home: p.root}, p.root},
	} {
		if got, ok := findRoot(p.env("", nil), tt.ev); !ok || got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// If a session works in two projects, both daemons receive its prompts, commands and compactions, but
// only one receives an edit.
func TestBothProjectsAreTold(t *testing.T) {
	p := newProject(t)
	o := p.second()
	p.serve(nil)
	o.serve(nil)
	p.run(`{"hook_event_name":"UserPromptSubmit","session_id":"s","prompt_id":"p1","cwd":"PROJ","prompt":"do it"}`)
	if got := o.methods(); got != "" {
		t.Errorf("a project where the session did nothing heard %s", got)
	}
	o.run(`{"hook_event_name":"PreToolUse","session_id":"s","prompt_id":"p1","cwd":"/","tool_name":"Edit","tool_use_id":"t1","tool_input":{"file_path":"PROJ/a"}}`)
	if got := p.methods(); got != "session comments" {
		t.Errorf("an edit in the other project: this one heard %s", got)
	}
	p.run(`{"hook_event_name":"PreToolUse","session_id":"s","prompt_id":"p1","cwd":"PROJ","tool_name":"Bash","tool_use_id":"t2","tool_input":{"command":"make"}}`)
	p.run(`{"hook_event_name":"PostToolUse","session_id":"s","prompt_id":"p1","cwd":"PROJ","tool_name":"Bash","tool_use_id":"t2","tool_input":{"command":"make"},"tool_response":{"stdout":"","stderr":""}}`)
	p.run(`{"hook_event_name":"PreCompact","session_id":"s","prompt_id":"p1","cwd":"PROJ"}`)
	p.run(`{"hook_event_name":"UserPromptSubmit","session_id":"s","prompt_id":"p2","cwd":"PROJ","prompt":"more"}`)
	if got, want := o.methods(), "tool.begin tool.begin tool.end session session"; got != want {
		t.Errorf("the other project heard %q, want %q", got, want)
	}
	var e wire.SessionEvent
	if o.asked(wire.MSession, &e); e.Prompt != "p2" || e.Text != "more" || !e.NoNews {
		t.Errorf("the prompt reached it as %+v", e)
	}
}

// A daemon joins a session while a prompt is being reported, and asks the daemon of the prompt's
// project before that daemon knows of the prompt. The joining daemon used to miss the prompt, so
// undo --prompt did not undo what was done in its project.
func TestProjectThatJoinsMeanwhileIsTold(t *testing.T) {
	p := newProject(t)
	o := p.second()
	o.serve(nil)
	p.serve(answers{wire.MSession: func(*wire.Request) (any, []byte, error) {
		return wire.SessionAnswer{}, nil, p.paths.JoinSession("s", o.root)
	}})
	p.run(`{"hook_event_name":"UserPromptSubmit","session_id":"s","prompt_id":"p1","cwd":"PROJ","prompt":"do it"}`)
	var e wire.SessionEvent
	if o.asked(wire.MSession, &e); e.Prompt != "p1" {
		t.Errorf("the prompt reached the project that joined as %+v", e)
	}
}

// A compaction that could not be reported is reported before anything else.
func TestOtherProjectMissedACompaction(t *testing.T) {
	p := newProject(t)
	o := p.second()
	p.serve(nil)
	o.run(`{"hook_event_name":"PreToolUse","session_id":"s","prompt_id":"p1","cwd":"PROJ","tool_name":"Bash","tool_use_id":"t1","tool_input":{"command":"make"}}`)
	state, err := o.paths.State(o.root)
	if err != nil {
		t.Fatal(err)
	}
	mark := filepath.Join(state, "hooks", "s.lost")
	if err := os.Remove(mark); err != nil { // the mark for the call itself, which no daemon received
		t.Fatal(err)
	}
	p.run(`{"hook_event_name":"PostToolUse","session_id":"s","prompt_id":"p1","cwd":"PROJ","tool_name":"Bash","tool_use_id":"t1","tool_input":{"command":"make"},"tool_response":{}}`)
	if _, err := os.Lstat(mark); err == nil {
		t.Error("a call that a sleeping daemon did not hear of costs it what it knows of contexts")
	}
	p.run(`{"hook_event_name":"PreCompact","session_id":"s","prompt_id":"p1","cwd":"PROJ"}`)
	if _, err := os.Lstat(mark); err != nil {
		t.Errorf("a compaction that it did not hear of: %v", err)
	}
	o.serve(nil)
	o.run(`{"hook_event_name":"PreToolUse","session_id":"s","prompt_id":"p1","cwd":"PROJ","tool_name":"Bash","tool_use_id":"t2","tool_input":{"command":"make"}}`)
	if got, want := o.methods(), "session tool.begin"; got != want {
		t.Errorf("the daemon that came heard %q, want %q", got, want)
	}
}
