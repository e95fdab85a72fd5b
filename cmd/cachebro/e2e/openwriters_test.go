package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"cachebro/store/wire"
)

// hold opens a file of the project for appending, as a server opens its log.
func (p *project) hold(name string) *os.File {
	p.t.Helper()
	f, err := os.OpenFile(p.path(name), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { f.Close() })
	return f
}

func (p *project) read(name string) string {
	p.t.Helper()
	b, err := os.ReadFile(p.path(name))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(b)
}

func add(t *testing.T, f *os.File, text string) {
	t.Helper()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// tool calls one tool over MCP.
func (p *project) tool(name string, args map[string]any) {
	p.t.Helper()
	call, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": map[string]any{"name": name, "arguments": args}})
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := p.command("serve", "--tools=all", p.dir)
	cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` +
		"\n" + `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" + string(call) + "\n")
	out, err := cmd.Output()
	for line := range strings.Lines(string(out)) {
		var answer struct {
			ID     int `json:"id"`
			Result struct {
				IsError bool `json:"isError"`
			} `json:"result"`
		}
		if json.Unmarshal([]byte(line), &answer) == nil && answer.ID == 2 && !answer.Result.IsError && strings.Contains(line, `"result"`) {
			return
		}
	}
	p.t.Fatalf("%s %v: %v\n%s", name, args, err, out)
}

// A server has its log open. Somebody else appends to it, and that is undone. The server's later
// writes must not go to a file without a name.
func TestUndoLeavesOpenWritersAlone(t *testing.T) {
	p := newProject(t, map[string]string{"log.txt": "one\n", "other.txt": "one\n"})
	p.mount()
	f := p.hold("log.txt")
	by := "open for writing by " + strconv.Itoa(os.Getpid())
	p.sh("echo two >> log.txt; echo two >> other.txt; echo new > made.txt")
	g := p.hold("made.txt")

	out, err := p.try("undo", "--since", "1h", "--dry-run", "--dir", p.dir)
	if strings.Count(out, by) != 2 {
		t.Errorf("the dry run: %v\n%s", err, out)
	}
	if said := p.refuse(1, "undo", "--since", "1h", "--yes", "--dir", p.dir); strings.Count(said, by) != 2 {
		t.Errorf("undo said:\n%s", said)
	}
	add(t, f, "three\n")
	add(t, g, "more\n")
	for name, want := range map[string]string{"log.txt": "one\ntwo\nthree\n", "other.txt": "one\n", "made.txt": "new\nmore\n"} {
		if got := p.read(name); got != want {
			t.Errorf("%s holds %q", name, got)
		}
	}

	// With --force the undo writes into the open file itself, and the process that has it open
	// continues at the new end. A file that would have to be deleted is still left alone.
	if said := p.refuse(1, "undo", "--since", "1h", "--force", "--yes", "--dir", p.dir); strings.Count(said, by) != 1 || !strings.Contains(said, "made.txt") {
		t.Errorf("undo --force said:\n%s", said)
	}
	add(t, f, "four\n")
	if got := p.read("log.txt"); got != "one\nfour\n" {
		t.Errorf("after --force the log holds %q", got)
	}
	f.Close()
	g.Close()
	p.wantContents("log.txt", "one\n", "one\ntwo\nthree\n", "one\n", "one\nfour\n")

	p.cb("undo", "--since", "1h", "--force", "--yes", "--dir", p.dir)
	if got := p.read("log.txt"); got != "one\n" {
		t.Errorf("after it was closed the log holds %q", got)
	}
	if _, err := os.Lstat(p.path("made.txt")); !os.IsNotExist(err) {
		t.Errorf("made.txt: %v", err)
	}
}

// Without a mount, nothing saves a write between the check and the change. So a file that is open
// for writing is never changed there, not even with --force.
func TestRevertLeavesOpenWritersAloneUnmounted(t *testing.T) {
	p := newProject(t, map[string]string{"log.txt": "one\n"})
	p.mount()
	p.sh("echo two >> log.txt")
	p.cb("umount", p.dir)
	f := p.hold("log.txt")
	if said := p.refuse(1, "revert", "--yes", p.path("log.txt")); !strings.Contains(said, "open for writing by "+strconv.Itoa(os.Getpid())) {
		t.Errorf("revert said:\n%s", said)
	}
	add(t, f, "three\n")
	f.Close()
	if got := p.read("log.txt"); got != "one\ntwo\nthree\n" {
		t.Errorf("the log holds %q", got)
	}
	p.cb("revert", "--yes", p.path("log.txt"))
	if got := p.read("log.txt"); got != "one\ntwo\n" {
		t.Errorf("after it was closed: %q", got)
	}
}

// If another process has a file open for writing, an edit over MCP writes into that file and does not
// replace it.
func TestEditLeavesOpenWritersTheirFile(t *testing.T) {
	for _, mounted := range []bool{true, false} {
		p := newProject(t, map[string]string{"log.txt": "one\n", "a.txt": "one\n"})
		p.mount()
		if !mounted {
			p.cb("umount", p.dir)
		}
		f := p.hold("log.txt")
		for _, name := range []string{"log.txt", "a.txt"} {
			p.tool("edit_file", map[string]any{"path": name, "old_string": "one", "new_string": "ONE"})
		}
		add(t, f, "two\n")
		if got := p.read("log.txt"); got != "ONE\ntwo\n" {
			t.Errorf("mounted %v: the log holds %q", mounted, got)
		}
		if got := p.read("a.txt"); got != "ONE\n" {
			t.Errorf("mounted %v: a.txt holds %q", mounted, got)
		}
	}
}

// Processes append to a file that is reverted again and again. In the end each line is in the
// file or in a version of it.
func TestAppendersDuringRevertsLoseNothing(t *testing.T) {
	p := newProject(t, map[string]string{"log.txt": "begin\n"})
	p.mount()
	p.sh("echo first >> log.txt")
	first := p.log("log.txt")[0].Seq
	var lines []string
	var mu sync.Mutex
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for who := range 3 {
		wg.Go(func() {
			for i := 0; i < 400; i++ {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(10+(i*7+who*5)%40) * time.Millisecond):
				}
				line := fmt.Sprintf("%d-%d\n", who, i)
				f, err := os.OpenFile(p.path("log.txt"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
				if err == nil {
					_, err = f.WriteString(line)
					if cerr := f.Close(); err == nil {
						err = cerr
					}
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				lines = append(lines, line)
				mu.Unlock()
			}
		})
	}
	done := 0
	for range 25 {
		if _, err := p.try("revert", "--yes", "--to", "#"+strconv.FormatUint(first, 10), p.path("log.txt")); err == nil {
			done++
		}
	}
	close(stop)
	wg.Wait()
	all := p.read("log.txt")
	paths := wire.Paths{RuntimeDir: filepath.Join(p.base, "run"), StateHome: filepath.Join(p.base, "state"), Home: filepath.Join(p.base, "home")}
	c, err := wire.Dial(t.Context(), paths, wire.Hello{Version: strings.Fields(p.cb("version"))[1], Client: "cli", Root: p.dir}, wire.Timeouts{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, e := range p.log("log.txt", "--baselines") {
		if e.Hash != "" {
			text, err := c.Call(t.Context(), wire.MShow, wire.ShowQuery{Seq: e.Seq}, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			all += "\n" + string(text)
		}
	}
	lost := 0
	for _, line := range lines {
		if !strings.Contains("\n"+all, "\n"+line) {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d lines are lost", lost, len(lines))
	}
	// A revert succeeds if nobody has the file open.
	p.cb("revert", "--yes", "--to", "#"+strconv.FormatUint(first, 10), p.path("log.txt"))
	t.Logf("%d lines, reverted %d times", len(lines), done)
}
