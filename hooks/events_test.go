package hooks

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cachebro/store/wire"
)

func answerRead(a wire.ReadAnswer, body string) answers {
	return answers{wire.MRead: func(*wire.Request) (any, []byte, error) { return a, []byte(body), nil }}
}

func TestReadBecomesSpan(t *testing.T) {
	p := newProject(t)
	long := strings.Repeat(`line\n`, 200)
	p.serve(answerRead(wire.ReadAnswer{Kind: wire.ReadSpan, Start: 40, NumLines: 2, TotalLines: 201, Note: "cachebro: a.go changed"}, "x\ny"))
	r := p.run(strings.Replace(readEvent, `one\ntwo\n`, long, 1))
	want := `{"hookSpecificOutput":{"hookEventName":"PostToolUse","additionalContext":"cachebro: a.go changed","updatedToolOutput":` +
		`{"file":{"content":"x\ny","filePath":"` + p.root + `/a.go","numLines":2,"startLine":40,"totalLines":201},"type":"text"}}}` + "\n"
	if r.stdout != want {
		t.Errorf("got  %s\nwant %s", r.stdout, want)
	}
}

func TestReadBecomesUnchanged(t *testing.T) {
	p := newProject(t)
	stub := "cachebro: not repeated. Lines 1-3 of a.go are exactly as in your Read of 12:40 (3 lines). Read it again to get the text."
	p.serve(answerRead(wire.ReadAnswer{Kind: wire.ReadUnchanged, TotalLines: 3}, stub))
	r := p.run(readEvent)
	if r.stdout != "" {
		t.Errorf("longer than the text: %s", r.stdout)
	}
	r = p.run(strings.NewReplacer(`one\n`, strings.Repeat(`one\n`, 200), `"totalLines":3}`, `"totalLines":3,"novel":false},"kind":null`).Replace(readEvent))
	want := `"updatedToolOutput":{"file":{"content":"` + stub + `","filePath":"` + p.root + `/a.go","novel":false,"numLines":1,"startLine":0,"totalLines":3},"kind":null,"type":"text"}`
	if !strings.Contains(r.stdout, want) {
		t.Errorf("got  %s\nwant %s", r.stdout, want)
	}
}

// If the client calls a text unchanged although this reader does not have it, the client's answer is
// replaced. Otherwise the answer is left alone.
func TestClientSaysUnchanged(t *testing.T) {
	event := readEvent[:strings.Index(readEvent, `"tool_response"`)] + `"tool_response":{"type":"file_unchanged","file":{"filePath":"PROJ/a.go"}}}`
	p := newProject(t)
	var kind atomic.Value
	kind.Store(wire.ReadFull)
	p.serve(answers{wire.MRead: func(r *wire.Request) (any, []byte, error) {
		var q wire.ReadRequest
		if err := r.Decode(&q); err != nil || !q.Rewrite.ClientUnchanged || len(r.Body) > 0 {
			t.Errorf("asked %+v, %v", q.Rewrite, err)
		}
		return wire.ReadAnswer{Kind: kind.Load().(string), Start: 1, NumLines: 2, TotalLines: 2}, []byte("one\ntwo"), nil
	}})
	if r := p.run(event); !strings.Contains(r.stdout, `{"file":{"content":"one\ntwo","filePath":"`+p.root+`/a.go","numLines":2,"startLine":1,"totalLines":2},"type":"text"}`) {
		t.Errorf("got %s", r.stdout)
	}
	for _, k := range []string{wire.ReadKeep, wire.ReadUnchanged} {
		kind.Store(k)
		silent(t, p.run(event))
	}
}

func TestNoRewriteOnlyRecords(t *testing.T) {
	p := newProject(t)
	p.args = []string{"PostToolUse", "--no-rewrite", "--from-the-future=1"}
	p.serve(nil)
	silent(t, p.run(readEvent))
	var s wire.Shown
	if body := p.asked(wire.MShown, &s); body != "one\ntwo\n" || s.NumLines != 3 || s.Rendering != "cc-read/1" {
		t.Errorf("recorded %+v %q", s, body)
	}
}

const bashEvent = `{"session_id":"s1","cwd":"PROJ/sub","hook_event_name":"PostToolUse","tool_name":"Bash","tool_use_id":"t2",
"tool_input":{"command":"sed -n '10,400p' a.go"},
"tool_response":{"stdout":"OUT","stderr":"","interrupted":false,"isImage":false,"noOutputExpected":true,"extra":null}}`

func TestBashBecomesSpan(t *testing.T) {
	p := newProject(t)
	p.serve(answerRead(wire.ReadAnswer{Kind: wire.ReadSpan, Start: 40, NumLines: 1, Note: "cachebro: sub/a.go changed."}, "y"))
	r := p.run(strings.Replace(bashEvent, "OUT", strings.Repeat("z", 500), 1))
	want := `"updatedToolOutput":{"extra":null,"interrupted":false,"isImage":false,"noOutputExpected":false,"stderr":"","stdout":"cachebro: sub/a.go changed.\ny"}`
	if !strings.Contains(r.stdout, want) {
		t.Errorf("got %s", r.stdout)
	}
	var q wire.ReadRequest
	p.asked(wire.MRead, &q)
	if string(q.Path) != "sub/a.go" || q.Offset != 10 || q.Limit != 391 || *q.Rewrite != (wire.Rewrite{Rendering: "raw/1", StartLine: 10, NumLines: 391}) {
		t.Errorf("asked %+v %+v", q, q.Rewrite)
	}
	if m := p.methods(); m != "tool.end session read" {
		t.Errorf("asked %s", m)
	}
}

// A result that is not just the text of a file is left alone.
func TestBashLeftAlone(t *testing.T) {
	p := newProject(t)
	p.serve(nil)
	for _, change := range [][2]string{
		{`"stderr":""`, `"stderr":"warning"`},
		{`"interrupted":false`, `"interrupted":true`},
		{`"extra":null`, `"persistedOutputPath":"/tmp/x"`},
		{`"extra":null`, `"backgroundTaskId":"b1"`},
		{`"stdout":"OUT"`, `"stdout":""`},
		{`a.go"}`, `a.go | wc -l"}`},
	} {
		silent(t, p.run(strings.Replace(bashEvent, change[0], change[1], 1)))
	}
	if m := p.methods(); strings.Contains(m, "read") || strings.Contains(m, "shown") {
		t.Errorf("asked %s", m)
	}
}

func TestBackgroundIsTold(t *testing.T) {
	p := newProject(t)
	p.serve(nil)
	p.run(strings.Replace(bashEvent, `"extra":null`, `"backgroundTaskId":"b1"`, 1))
	var c wire.ToolCall
	p.asked(wire.MToolEnd, &c)
	if !c.Background || c.ToolUse != "t2" || c.Tool != "Bash" {
		t.Errorf("told %+v", c)
	}
}

func TestStaleWrite(t *testing.T) {
	p := newProject(t)
	p.serve(answers{wire.MToolBegin: func(*wire.Request) (any, []byte, error) {
		return wire.ToolBeginAnswer{Warnings: []string{"cachebro: a\n.go was changed"}}, nil, nil
	}})
	r := p.run(`{"session_id":"s1","prompt_id":"p1","agent_id":"a1","cwd":"PROJ","hook_event_name":"PreToolUse","tool_name":"Edit","tool_input":{"file_path":"PROJ/a.go"},"tool_use_id":"t1"}`)
	if r.stdout != `{"hookSpecificOutput":{"hookEventName":"PreToolUse","additionalContext":"cachebro: a.go was changed"}}`+"\n" {
		t.Errorf("got %s", r.stdout)
	}
	var c wire.ToolCall
	p.asked(wire.MToolBegin, &c)
	if len(c.Paths) != 1 || string(c.Paths[0]) != "a.go" || c.Prompt != "p1" || c.Agent != "a1" || c.PID == 0 {
		t.Errorf("told %+v", c)
	}
	var s wire.Spend
	if body := p.asked(wire.MSpend, &s); s.Kind != "overhead" || body != "cachebro: a.go was changed" {
		t.Errorf("spent %+v %q", s, body)
	}
}

func TestBatchCommits(t *testing.T) {
	p := newProject(t)
	p.serve(nil)
	silent(t, p.run(`{"session_id":"s1","agent_id":"a1","cwd":"PROJ","hook_event_name":"PostToolBatch","tool_calls":[
	{"tool_name":"Read","tool_input":{},"tool_use_id":"t1","tool_response":"9\ta\n10\t\n11\tb"},
	{"tool_name":"Read","tool_input":{},"tool_use_id":"t2","tool_response":"0\tcachebro: not repeated."},
	{"tool_name":"Bash","tool_input":{"command":"cat x"},"tool_use_id":"t3","tool_response":"cachebro: x changed.\nline"},
	{"tool_name":"Bash","tool_input":{"command":"make"},"tool_use_id":"t4","tool_response":"ok"},
	{"tool_name":"mcp__cachebro__read_file","tool_input":{},"tool_use_id":"t5","tool_response":[{"type":"text","text":"full "},{"type":"text","text":"text"}]},
	{"tool_name":"Grep","tool_input":{},"tool_use_id":"t6","tool_response":"x"}]}`))
	var c wire.Commit
	p.asked(wire.MCommit, &c)
	got, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"reader":{"session":"s1","agent":"a1"},"calls":[{"tool_use":"t1","text":"9\ta\n10\t\n11\tb"},` +
		`{"tool_use":"t2","text":"0\tcachebro: not repeated."},` +
		`{"tool_use":"t3","text":"cachebro: x changed.\nline"},{"tool_use":"t5","text":"full text"}],"given":19}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// For a built-in Edit, the hook reports which lines the model itself supplied. It computes them
// from the client's event.
func TestOwnEdit(t *testing.T) {
	p := newProject(t)
	p.serve(nil)
	edit := `{"session_id":"s1","cwd":"PROJ","hook_event_name":"PostToolUse","tool_name":"Edit","tool_use_id":"t1","tool_input":{"file_path":"PROJ/a"},
	"tool_response":{"filePath":"PROJ/a","oldString":"b","newString":"c","originalFile":"a\nb\n","userModified":false,"replaceAll":false}}`
	silent(t, p.run(edit))
	var e wire.OwnEdit
	if body := p.asked(wire.MOwnEdit, &e); body != "a\nc\n" || e.Old != "b" || e.New != "c" || e.Before == "" {
		t.Errorf("told %+v %q", e, body)
	}
	n := p.methods()
	silent(t, p.run(strings.Replace(edit, `a\nb\n`, `b\nb\n`, 1))) // the old text is not unique, so it is unknown which one was changed
	silent(t, p.run(strings.Replace(edit, `"userModified":false`, `"userModified":true`, 1)))
	if got := strings.TrimPrefix(p.methods(), n); strings.Contains(got, "own-edit") {
		t.Errorf("doubtful edits were reported:%s", got)
	}
	silent(t, p.run(`{"session_id":"s1","cwd":"PROJ","hook_event_name":"PostToolUse","tool_name":"Write","tool_use_id":"t1","tool_input":{"file_path":"PROJ/a","content":"x\n"},
	"tool_response":{"type":"create","filePath":"PROJ/a","content":"x\n","userModified":false}}`))
	if body := p.asked(wire.MOwnEdit, &e); body != "x\n" || e.New != "x\n" {
		t.Errorf("told %+v %q", e, body)
	}
}

func TestSessionStart(t *testing.T) {
	p := newProject(t)
	p.serve(answers{
		wire.MSession: func(*wire.Request) (any, []byte, error) {
			return wire.SessionAnswer{Mounted: true}, nil, nil
		},
		wire.MRecovery: func(*wire.Request) (any, []byte, error) {
			return wire.Recovery{Branch: "main", Set: wire.WorkingSet{Files: []wire.WorkingFile{{Path: []byte("a.go"), Reads: 1}, {Path: []byte("b.go"), Edits: 1}}}}, nil, nil
		},
		wire.MSpend: func(*wire.Request) (any, []byte, error) { return wire.SpendAnswer{Booked: true}, nil, nil },
	})
	event := `{"session_id":"s1","cwd":"PROJ","transcript_path":"PROJ/t.jsonl","hook_event_name":"SessionStart","source":"SRC"}`
	for src, context := range map[string]bool{"startup": false, "resume": false, "clear": false, "compact": true} {
		r := p.run(strings.Replace(event, "SRC", src, 1))
		if got := strings.Contains(r.stdout, "## cachebro session state"); got != context || !context && r.stdout != "{}\n" {
			t.Errorf("%s: got %s", src, r.stdout)
		}
	}
	p.run(strings.Replace(event, "SRC", "resume", 1))
	var e wire.SessionEvent
	p.asked(wire.MSession, &e)
	if e.Event != "start" || e.Source != "resume" || e.Client != "claude-code/2.1.197" || e.PID == os.Getpid() {
		t.Errorf("told %+v", e)
	}
}

// With a prompt, the user learns that nothing is saved any more.
func TestPromptTellsOfTrouble(t *testing.T) {
	for want, a := range map[string]wire.SessionAnswer{
		`"systemMessage":" cachebro  capture stopped: the disk is full · cachebro status"`: {Mounted: true, Trouble: "capture stopped: the disk is full"},
		`"systemMessage":" cachebro  no longer mounted: `:                                  {MountEnded: true},
	} {
		p := newProject(t)
		p.serve(answers{wire.MSession: func(*wire.Request) (any, []byte, error) { return a, nil, nil }})
		got := p.run(`{"session_id":"s1","cwd":"PROJ","hook_event_name":"UserPromptSubmit","prompt":"go on"}`).stdout
		if !strings.Contains(got, want) {
			t.Errorf("%+v: %s", a, got)
		}
	}
}

func TestStop(t *testing.T) {
	p := newProject(t)
	var modified atomic.Int64
	p.serve(answers{wire.MRecovery: func(*wire.Request) (any, []byte, error) {
		return wire.Recovery{Branch: "main", Modified: int(modified.Load()), Prompt: "fc3c6689-e0e6-4b46-9fa4-1c1e9c1f4a0b"}, nil, nil
	}})
	event := `{"session_id":"s1","cwd":"PROJ","hook_event_name":"Stop"}`
	silent(t, p.run(event))
	p.args = []string{"--stop-line=always"}
	if got := p.run(event).stdout; got != `{"systemMessage":" cachebro  0 tokens saved · main"}`+"\n" {
		t.Errorf("always: %s", got)
	}
	p.args = nil
	modified.Store(3)
	if got := p.run(event).stdout; !strings.Contains(got, "3 files changed, undo: cachebro undo --prompt fc3c6689\"") {
		t.Errorf("changed: %s", got)
	}
	p.args = []string{"--stop-line=off"}
	silent(t, p.run(event))
}

// Hooks of parallel calls arrive at the same time. The transcript is checked once, and no read is
// requested before that.
func TestParallelCallsJudgeOnce(t *testing.T) {
	p := newProject(t)
	judging := make(chan struct{}, 1)
	p.serve(answers{
		wire.MSession: func(*wire.Request) (any, []byte, error) {
			judging <- struct{}{}
			time.Sleep(50 * time.Millisecond)
			<-judging
			return wire.SessionAnswer{}, nil, nil
		},
		wire.MRead: func(*wire.Request) (any, []byte, error) {
			select {
			case judging <- struct{}{}:
				<-judging
			default:
				t.Error("read while the transcript was being judged")
			}
			return wire.ReadAnswer{Kind: wire.ReadKeep}, nil, nil
		},
	})
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			if r := p.run(strings.Replace(readEvent, `"t1"`, fmt.Sprintf(`"t%d"`, i), 1)); r.stdout != "" {
				t.Errorf("got %+v", r)
			}
		})
	}
	all.Wait()
	if m := p.methods(); strings.Count(m, "session") != 1 || strings.Count(m, "read") != 4 {
		t.Errorf("asked %s", m)
	}
}

// While hooks are off, or no daemon runs, a compaction may remain unnoticed. The first event that
// reaches the daemon reports this, once.
func TestLostEvents(t *testing.T) {
	p := newProject(t)
	silent(t, p.run(readEvent)) // no daemon
	var lost atomic.Int64
	var fail atomic.Bool
	p.serve(answers{
		wire.MSession: func(r *wire.Request) (any, []byte, error) {
			var e wire.SessionEvent
			if err := r.Decode(&e); err != nil {
				t.Error(err)
			}
			if e.Event == "lost" {
				lost.Add(1)
			}
			return wire.SessionAnswer{}, nil, nil
		},
		wire.MRead: func(r *wire.Request) (any, []byte, error) {
			if lost.Load() == 0 {
				t.Error("read before the loss was reported")
			}
			if fail.Load() {
				time.Sleep(300 * time.Millisecond)
			}
			return keep(r)
		},
	})
	silent(t, p.run(readEvent))
	silent(t, p.run(readEvent))
	if n := lost.Load(); n != 1 {
		t.Fatalf("told %d times", n)
	}
	fail.Store(true)
	p.patient = false
	silent(t, p.run(readEvent)) // the answer comes too late
	p.patient = true
	fail.Store(false)
	p.now = p.now.Add(time.Minute)
	silent(t, p.run(strings.Replace(readEvent, `"s1"`, `"s2"`, 1))) // another session lost nothing
	if n := lost.Load(); n != 1 {
		t.Errorf("told %d times after another session's event", n)
	}
	silent(t, p.run(readEvent))
	if n := lost.Load(); n != 2 {
		t.Errorf("told %d times", n)
	}
	// While hooks were off, events of any session may have been lost.
	breaker{breakerFile(p.paths, p.root), func() time.Time { return p.now }}.trip()
	silent(t, p.run(strings.Replace(readEvent, `"s1"`, `"s2"`, 1)))
	p.now = p.now.Add(time.Minute)
	silent(t, p.run(strings.Replace(readEvent, `"s1"`, `"s2"`, 1)))
	if n := lost.Load(); n != 3 {
		t.Errorf("told %d times after hooks were off", n)
	}
}

// With --hold, an edit of a file that others changed is denied once, and the model is shown what
// they changed.
func TestHeldEdit(t *testing.T) {
	const event = `{"session_id":"s1","prompt_id":"p1","cwd":"PROJ","hook_event_name":"PreToolUse","tool_name":"Write","tool_input":{"file_path":"PROJ/a.go","content":"x"},"tool_use_id":"t1"}`
	for _, x := range []struct {
		args []string
		want string
	}{
		{[]string{"--hold"}, `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"cachebro: held:\n@@ -1,1 +1,1 @@\n-a b\n+b"}}` + "\n"},
		{nil, ""},
		{[]string{"--hold", "--client=opencode"}, "{}\n"},
	} {
		p := newProject(t)
		p.args = x.args
		p.serve(answers{wire.MToolBegin: func(r *wire.Request) (any, []byte, error) {
			var c wire.ToolCall
			if err := r.Decode(&c); err != nil || !c.Hold {
				return wire.ToolBeginAnswer{}, nil, err
			}
			return wire.ToolBeginAnswer{Held: "cachebro: held:\n@@ -1,1 +1,1 @@\n-a\tb\r\n+b\n"}, nil, nil
		}})
		if r := p.run(event); r.stdout != x.want {
			t.Errorf("%q: %s", x.args, r.stdout)
		}
	}
}
