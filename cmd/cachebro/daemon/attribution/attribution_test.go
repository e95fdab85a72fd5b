package attribution

import (
	"fmt"
	"testing"
	"time"

	"cachebro/store"
	"cachebro/store/leaf/spool"
	"cachebro/store/wire"
)

// tree is a process tree. Process 100 is the client, and its children are shells.
type tree struct {
	a *Attribution
	t *testing.T
}

func newTree(t *testing.T) *tree {
	tr := &tree{newAttribution(), t}
	tr.add(1, 0, "init", "", time.Hour)
	tr.add(100, 1, "claude", "claude -p", time.Minute)
	return tr
}

var t0 = time.Now()

func (tr *tree) key(pid uint32) Key {
	for k := range tr.a.procs {
		if k.PID == pid {
			return k
		}
	}
	tr.t.Fatalf("no process %d", pid)
	return Key{}
}

func (tr *tree) ticks(at time.Time) uint64 {
	return uint64((at.UnixNano() - tr.a.boot) / int64(10*time.Millisecond))
}

func (tr *tree) add(pid, ppid uint32, comm, args string, ago time.Duration) {
	r := &spool.Record{Kind: spool.KindProcess, PID: pid, Start: tr.ticks(t0.Add(-ago)), PPID: ppid, Comm: comm, Args: args, Time: t0.UnixNano()}
	if ppid != 0 {
		r.PStart = tr.key(ppid).Start
	}
	tr.a.process(r)
}

func at(d time.Duration) int64 { return t0.Add(d).UnixNano() }

func (tr *tree) bash(use, command string, from time.Duration) {
	tr.a.begin(wire.ToolCall{Session: "S", Agent: "A" + use, Prompt: "P1", ToolUse: use, Tool: "Bash", Command: command}, tr.key(100), at(from))
}

func TestAttribution(t *testing.T) {
	t.Run("without a session", func(t *testing.T) {
		tr := newTree(t)
		tr.add(7, 1, "vim", "vim a.go", time.Second)
		if a := tr.a.Actor(tr.key(7), 5, at(0), "a.go"); a.Session != "" || a.Comm != "vim" || a.Args != "vim a.go" || a.ToolCall != "" {
			t.Errorf("%+v", a)
		}
	})
	t.Run("of two plans in a row", func(t *testing.T) {
		// The last writes of a plan used to belong to the next plan of the same process.
		tr := newTree(t)
		tr.add(7, 1, "cachebro", "cachebro undo --git", time.Second)
		own := tr.key(7)
		tr.a.beginPlan("git", own, at(0))
		tr.a.endPlan("git", at(20*time.Millisecond))
		tr.a.beginPlan("files", own, at(30*time.Millisecond))
		tr.a.endPlan("files", at(time.Second))
		for after, want := range map[time.Duration]string{-10: "git", 10: "git", 22: "git", 28: "files", 40: "files", 1010: "files", 2000: ""} {
			if got := tr.a.PlanOf(own, at(after*time.Millisecond)); got != want {
				t.Errorf("after %d ms: %q, want %q", after, got, want)
			}
		}
	})
	t.Run("beside a tool that only reads", func(t *testing.T) {
		// Whatever the client's own processes wrote between the call of such a tool and the next
		// call used to be attributed to the tool.
		tr := newTree(t)
		tr.a.begin(wire.ToolCall{Session: "S", ToolUse: "u1", Tool: "mcp__cachebro__read_file", Paths: [][]byte{[]byte("a.go")}}, tr.key(100), at(-2*time.Second))
		tr.add(8, 100, "gofmt", "gofmt -w a.go", time.Second)
		if a := tr.a.Actor(tr.key(8), 0, at(0), "a.go"); a.Tool != "" || a.ToolCall != "" || a.Comm != "gofmt" {
			t.Errorf("%+v", a)
		}
		tr.a.begin(wire.ToolCall{Session: "S", ToolUse: "u2", Tool: "mcp__cachebro__edit_file", Paths: [][]byte{[]byte("a.go")}}, tr.key(100), at(-time.Second))
		if a := tr.a.Actor(tr.key(100), 0, at(0), "a.go"); a.ToolCall != "u2" {
			t.Errorf("%+v", a)
		}
	})
	t.Run("session by environment", func(t *testing.T) {
		tr := newTree(t)
		tr.a.process(&spool.Record{PID: 9, Start: 1, PPID: 1, Comm: "sed", Session: map[string]string{"CLAUDE_CODE_SESSION_ID": "E"}})
		if a := tr.a.Actor(Key{9, 1}, 0, at(0), "x"); a.Session != "E" {
			t.Errorf("%+v", a)
		}
	})
	t.Run("one command", func(t *testing.T) {
		tr := newTree(t)
		tr.a.client(tr.key(100), "S", at(-30*time.Second))
		tr.a.Prompt("S", "P1", at(-20*time.Second))
		tr.bash("use1", "make", -time.Second)
		tr.add(101, 100, "bash", "bash -c make", time.Second)
		tr.add(102, 101, "make", "make", 900*time.Millisecond)
		a := tr.a.Actor(tr.key(102), 0, at(0), "out.o")
		want := store.Actor{PID: 102, Start: tr.key(102).Start, Comm: "make", Args: "make", Session: "S", Agent: "Ause1", Prompt: "P1", ToolCall: "use1", Tool: "Bash"}
		if a != want {
			t.Errorf("%+v, want %+v", a, want)
		}
		// The call has ended. Later writes of its processes belong to it, but the client's later
		// work does not.
		tr.a.finish("use1", false, false, at(time.Second))
		if a := tr.a.Actor(tr.key(102), 0, at(time.Minute), "out.o"); a.ToolCall != "use1" {
			t.Errorf("later: %+v", a)
		}
		if a := tr.a.Actor(tr.key(100), 0, at(time.Minute), "x"); a.ToolCall != "" || a.Session != "S" || a.Prompt != "P1" {
			t.Errorf("the client itself: %+v", a)
		}
	})
	t.Run("parallel commands are distinguished by their trees", func(t *testing.T) {
		tr := newTree(t)
		tr.a.client(tr.key(100), "S", at(-30*time.Second))
		tr.bash("use1", "sleep 5; touch a", -3*time.Second)
		tr.add(101, 100, "bash", "bash -c sleep 5; touch a", 2900*time.Millisecond)
		tr.bash("use2", "touch b", -time.Second)
		tr.add(102, 100, "bash", "bash -c touch b", 900*time.Millisecond)
		tr.add(103, 101, "touch", "touch a", 100*time.Millisecond)
		tr.add(104, 102, "touch", "touch b", 100*time.Millisecond)
		for pid, want := range map[uint32]string{103: "use1", 104: "use2"} {
			if a := tr.a.Actor(tr.key(pid), 0, at(0), "x"); a.ToolCall != want || a.Uncertain {
				t.Errorf("%d: %+v, want %s", pid, a, want)
			}
		}
	})
	t.Run("what cannot be distinguished is uncertain", func(t *testing.T) {
		tr := newTree(t)
		tr.a.client(tr.key(100), "S", at(-30*time.Second))
		tr.add(101, 100, "bash", "bash -i", 20*time.Second) // a long-lived shell
		tr.bash("use1", "./x.sh", -time.Second)
		tr.bash("use2", "./y.sh", -time.Second)
		tr.add(102, 101, "touch", "touch q", 100*time.Millisecond)
		if a := tr.a.Actor(tr.key(102), 0, at(0), "q"); !a.Uncertain || a.Session != "S" || a.ToolCall == "" {
			t.Errorf("%+v", a)
		}
	})
	t.Run("a background command keeps its tree", func(t *testing.T) {
		tr := newTree(t)
		tr.a.client(tr.key(100), "S", at(-30*time.Second))
		tr.bash("use1", "npm run dev", -10*time.Second)
		tr.a.finish("use1", true, false, at(-9900*time.Millisecond))
		tr.add(101, 100, "bash", "bash -c npm run dev", 9950*time.Millisecond)
		tr.bash("use2", "ls", -time.Second)
		tr.add(103, 101, "node", "node server.js", 9*time.Second)
		if a := tr.a.Actor(tr.key(103), 0, at(0), "x"); a.ToolCall != "use1" || a.Uncertain {
			t.Errorf("%+v", a)
		}
	})
	t.Run("a detached child is its call's, late", func(t *testing.T) {
		// The parent of the process ended before the process wrote. So only the environment and the
		// start time of the process show where it belongs. The environment also names the session
		// of the "cachebro run" around the client.
		tr := newTree(t)
		tr.a.client(tr.key(100), "S", at(-30*time.Second))
		tr.bash("use1", "setsid ./x.sh &", -10*time.Second)
		tr.a.finish("use1", false, false, at(-9*time.Second))
		tr.bash("use2", "ls", -5*time.Second)
		tr.a.finish("use2", false, false, at(-4*time.Second))
		for pid, began := range map[uint32]time.Duration{201: 9500 * time.Millisecond, 202: 7 * time.Second} {
			tr.a.process(&spool.Record{PID: pid, Start: tr.ticks(t0.Add(-began)), PPID: 1, PStart: tr.key(1).Start, Comm: "x.sh",
				Session: map[string]string{"CACHEBRO_SESSION": "R", "CLAUDE_CODE_SESSION_ID": "S"}})
		}
		tr.add(203, 201, "sed", "sed -i x", time.Second)
		for _, pid := range []uint32{201, 203} {
			if a := tr.a.Actor(tr.key(pid), 0, at(0), "x"); a.ToolCall != "use1" || a.Prompt != "P1" || a.Session != "S" || !a.Late || a.Uncertain {
				t.Errorf("%d: %+v", pid, a)
			}
		}
		if a := tr.a.Actor(tr.key(202), 0, at(0), "x"); a.ToolCall != "" {
			t.Errorf("begun between two calls: %+v", a)
		}
	})
	t.Run("what begins after a call is not the call's", func(t *testing.T) {
		// If the client's own git began 30 ms after the end of the call, it used to be attributed
		// to the call for as long as it ran. Everything that began within a day used to be
		// attributed to a background command.
		for _, background := range []bool{false, true} {
			tr := newTree(t)
			tr.a.client(tr.key(100), "S", at(-30*time.Second))
			tr.bash("use1", "make", -10*time.Second)
			tr.a.finish("use1", background, false, at(-9*time.Second))
			tr.add(101, 100, "git", "git commit", 8970*time.Millisecond)
			if a := tr.a.Actor(tr.key(101), 0, at(-8960*time.Millisecond), "x"); a.ToolCall != "" && !a.Uncertain {
				t.Errorf("at once, background %v: %+v", background, a)
			}
			if a := tr.a.Actor(tr.key(101), 0, at(0), "x"); a.ToolCall != "" || a.Session != "S" {
				t.Errorf("later, background %v: %+v", background, a)
			}
		}
	})
	t.Run("the same command again, of a client without ids of calls", func(t *testing.T) {
		// The second run used to be mistaken for the same hook running twice, and its writes were
		// attributed to nobody.
		tr := newTree(t)
		tr.a.client(tr.key(100), "S", at(-30*time.Second))
		tr.bash("digest", "make", -10*time.Second)
		tr.a.finish("digest", false, false, at(-9*time.Second))
		tr.bash("digest", "make", -2*time.Second)
		tr.add(101, 100, "make", "make", time.Second)
		if a := tr.a.Actor(tr.key(101), 0, at(0), "x"); a.ToolCall != "digest" || a.Late || a.Uncertain {
			t.Errorf("%+v", a)
		}
	})
	t.Run("what a client sends by itself is the typed prompt's", func(t *testing.T) {
		tr := newTree(t)
		tr.a.client(tr.key(100), "S", at(-30*time.Second))
		tr.a.begin(wire.ToolCall{Session: "S", Prompt: "P2", ToolUse: "use1", Tool: "Bash", Command: "x"}, tr.key(100), at(-time.Second))
		tr.add(101, 100, "bash", "bash -c x", 900*time.Millisecond)
		tr.a.Continue("P2", "P1") // reported after the call began
		tr.a.Continue("P3", "P2")
		if a := tr.a.Actor(tr.key(101), 0, at(0), "x"); a.Prompt != "P1" {
			t.Errorf("%+v", a)
		}
		if p := tr.a.PromptOf("S", "", "P3"); p != "P1" {
			t.Errorf("a continuation of a continuation: %s", p)
		}
	})
	t.Run("an edit belongs to the client's own process", func(t *testing.T) {
		tr := newTree(t)
		tr.a.client(tr.key(100), "S", at(-30*time.Second))
		tr.a.begin(wire.ToolCall{Session: "S", ToolUse: "e1", Tool: "Edit", Paths: [][]byte{[]byte("a.go")}}, tr.key(100), at(-time.Second))
		tr.a.begin(wire.ToolCall{Session: "S", ToolUse: "e2", Tool: "Write", Paths: [][]byte{[]byte("b.go")}}, tr.key(100), at(-time.Second))
		tr.bash("use1", "gofmt -w .", -time.Second)
		tr.add(101, 100, "bash", "bash -c gofmt -w .", 900*time.Millisecond)
		for _, c := range []struct {
			pid        uint32
			path, want string
		}{{100, "a.go", "e1"}, {100, "b.go.tmp.100.17", "e2"}, {101, "a.go", "use1"}} {
			if a := tr.a.Actor(tr.key(c.pid), 0, at(0), c.path); a.ToolCall != c.want || a.Uncertain {
				t.Errorf("%d %s: %+v, want %s", c.pid, c.path, a, c.want)
			}
		}
	})
	t.Run("one process, one session after the other", func(t *testing.T) {
		tr := newTree(t)
		tr.a.client(tr.key(100), "old", at(-30*time.Second))
		tr.a.client(tr.key(100), "new", at(-10*time.Second))
		for d, want := range map[time.Duration]store.SessionID{-20 * time.Second: "old", 0: "new"} {
			if a := tr.a.Actor(tr.key(100), 0, at(d), "x"); a.Session != want {
				t.Errorf("at %v: %+v, want %s", d, a, want)
			}
		}
	})
	t.Run("the table is bounded", func(t *testing.T) {
		tr := newTree(t)
		for i := range maxProcs * 2 {
			tr.a.process(&spool.Record{PID: uint32(1000 + i), Start: 1, Time: int64(i)})
		}
		for i := range maxWindows * 2 {
			tr.a.begin(wire.ToolCall{ToolUse: fmt.Sprint(i)}, Key{}, int64(i))
		}
		if len(tr.a.procs) > maxProcs || len(tr.a.windows) > maxWindows {
			t.Errorf("%d processes, %d windows", len(tr.a.procs), len(tr.a.windows))
		}
	})
}
