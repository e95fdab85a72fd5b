package mcp

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"cachebro/store/wire"
)

// two is a server in one project, whose client also works in another project.
type two struct {
	*peer
	first, second *live
	hooks         *wire.Client
}

func newTwo(t *testing.T, opt Options) *two {
	t.Helper()
	w := &two{first: liveProject(t, files{"a.txt": numbered(100, "first"), "sub/b.txt": "b\n"})}
	w.second = &live{t: t, dir: project(t, files{"a.txt": numbered(100, "second")}), base: w.first.base}
	w.second.start()
	t.Cleanup(func() { w.second.stop(syscall.SIGTERM) })
	opt.Root, opt.Dial = w.first.dir, w.first.dial
	opt.Open = func(path string) (Options, bool) {
		for _, l := range []*live{w.first, w.second} {
			if _, ok := relativeTo(path, l.dir); ok {
				o := opt
				o.Root, o.Dial = l.dir, l.dial
				return o, true
			}
		}
		return Options{}, false
	}
	w.peer = connect(t, opt)
	c, err := wire.Dial(context.Background(), testPaths(w.first.base), wire.Hello{Version: "test", Client: "hook", Root: w.first.dir}, wire.Timeouts{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	w.hooks = c
	return w
}

// in makes a call that a hook saw in a directory.
func (w *two) in(cwd, id, name string, args map[string]any) result {
	w.t.Helper()
	call := wire.ToolCall{Session: "s", ToolUse: id, Tool: "mcp__cachebro__" + name, Cwd: cwd}
	if _, err := w.hooks.Call(context.Background(), wire.MToolBegin, call, nil, nil); err != nil {
		w.t.Fatal(err)
	}
	return w.toolMeta(name, args, map[string]any{toolUseKey: id})
}

// A call belongs to the project in which a hook saw it, or to the server's own project if no hook
// saw it. A path in the call may also name a file of the server's own project.
func TestProjectOfCall(t *testing.T) {
	w := newTwo(t, Options{})
	first, second := w.first.dir, w.second.dir
	text := func(r result) string { return r.Content[0].Text }
	has(t, text(w.in(first, "t1", "read_file", at("a.txt"))), "first 1:")
	has(t, text(w.in(second, "t2", "read_file", at("a.txt"))), "second 1:")
	has(t, text(w.in(second+"/gone/deeper", "t3", "read_file", at("a.txt"))), "second 1:")
	has(t, text(w.in(second, "t4", "read_file", at(second+"/a.txt"))), "second 1:")
	has(t, text(w.in(second, "t5", "read_file", at("file://"+first+"/a.txt"))), "first 1:")
	has(t, w.ok("read_file", at("a.txt")), "first 1:") // no hook saw it
	both := text(w.in(second, "t6", "read_files", map[string]any{"paths": []string{"a.txt", first + "/sub/b.txt"}}))
	if !strings.Contains(both, "second 1:") || !strings.Contains(both, "b\n") || strings.Contains(both, "error") {
		t.Errorf("files of two projects: %s", both)
	}
	w.in(second, "t7", "write_file", map[string]any{"path": "new.txt", "content": "new\n"})
	w.in(second, "t8", "edit_file", map[string]any{"path": "a.txt", "old_string": "second 50:", "new_string": "changed 50:"})
	if _, err := os.Stat(first + "/new.txt"); err == nil || read(t, second+"/new.txt") != "new\n" {
		t.Error("a file was written to the wrong project")
	}
	if !strings.Contains(read(t, second+"/a.txt"), "changed 50:") || read(t, first+"/a.txt") != numbered(100, "first") {
		t.Error("a file was edited in the wrong project")
	}
	if got := text(w.in(second, "t9", "search_history", map[string]any{"path_filter": "new.txt"})); !strings.Contains(got, "new.txt") {
		t.Errorf("its history: %s", got)
	}
	if r := w.in(second, "t10", "revert_file", at("a.txt")); r.IsError || read(t, second+"/a.txt") != numbered(100, "second") {
		t.Errorf("revert_file: %s", text(r))
	}
	// Nothing says that the session works in the second project.
	for _, r := range []result{w.in(first, "t11", "read_file", at(second+"/a.txt")), w.tool("write_file", map[string]any{"path": second + "/b.txt", "content": "x"})} {
		if !r.IsError || !strings.Contains(text(r), "is not inside the project") {
			t.Errorf("a path in a project where the session does not work: %s", text(r))
		}
	}
	// If the project of a call is unknown, it is not guessed.
	w.first.stop(syscall.SIGKILL)
	if got := w.toolMeta("write_file", map[string]any{"path": "lost.txt", "content": "x"}, map[string]any{toolUseKey: "t12"}); !got.IsError || !strings.Contains(text(got), "absolute paths") {
		t.Errorf("a relative path while the store does not answer: %s", text(got))
	}
	w.first.start()
}

// If a path lies in none of the session's known projects, a client that can list its roots is asked
// for them.
func TestProjectOfRoots(t *testing.T) {
	w := newTwo(t, Options{})
	meta := map[string]any{"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientInfo": map[string]any{"name": "t", "version": "0"},
		"io.modelcontextprotocol/clientCapabilities": map[string]any{"roots": map[string]any{}}}
	params := map[string]any{"name": "read_file", "arguments": at(w.second.dir + "/a.txt"), "_meta": meta}
	var asked struct {
		ResultType    string
		InputRequests map[string]struct{ Method string }
	}
	if err := json.Unmarshal(w.call("tools/call", params).Result, &asked); err != nil || asked.ResultType != "input_required" || asked.InputRequests[rootsKey].Method != "roots/list" {
		t.Fatalf("the question: %+v %v", asked, err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(w.second.dir, link); err != nil {
		t.Fatal(err)
	}
	for root, want := range map[string]string{w.second.dir: "second 1:", link: "second 1:", filepath.Dir(w.second.dir): "second 1:", w.second.dir + "/sub": "path ", w.first.dir: "path "} {
		again := maps.Clone(params)
		again["inputResponses"] = map[string]any{rootsKey: map[string]any{"roots": []any{map[string]any{"uri": "file://" + root}}}}
		var r result
		if err := json.Unmarshal(w.call("tools/call", again).Result, &r); err != nil || len(r.Content) == 0 {
			t.Fatalf("root %s: %+v %v", root, r, err)
		}
		has(t, r.Content[0].Text, want)
	}
}

// In a linked work tree inside the project, a relative path means a file of the work tree.
func TestPathInLinkedWorkTree(t *testing.T) {
	w := newTwo(t, Options{})
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "start"}, {"worktree", "add", "-q", ".claude/worktrees/wt"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = w.first.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	tree := filepath.Join(w.first.dir, ".claude/worktrees/wt")
	edit := func(id, path string) {
		t.Helper()
		if r := w.in(tree+"/sub", id, "edit_file", map[string]any{"path": path, "old_string": "b\n", "new_string": "+b\n"}); r.IsError {
			t.Fatalf("%s: %s", path, r.Content[0].Text)
		}
	}
	edit("t1", "sub/b.txt")
	edit("t2", ".claude/worktrees/wt/sub/b.txt") // the path in our own answers
	edit("t3", tree+"/sub/b.txt")
	if got := read(t, tree+"/sub/b.txt"); got != "+++b\n" || read(t, w.first.dir+"/sub/b.txt") != "b\n" {
		t.Errorf("the work tree has %q, the project %q", got, read(t, w.first.dir+"/sub/b.txt"))
	}
}

// If a file of one project was sent, the file with the same name in another project does not count as
// sent.
func TestClearInTwoProjects(t *testing.T) {
	w := newTwo(t, Options{Reader: ReaderConnection, Small: 1 << 30})
	meta := map[string]any{"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientInfo": map[string]any{"name": "t", "version": "0"},
		"io.modelcontextprotocol/clientCapabilities": map[string]any{"roots": map[string]any{}}}
	there := func() string {
		var r result
		m := w.call("tools/call", map[string]any{"name": "read_file", "arguments": at(w.second.dir + "/a.txt"), "_meta": meta,
			"inputResponses": map[string]any{rootsKey: map[string]any{"roots": []any{map[string]any{"uri": "file://" + w.second.dir}}}}})
		if err := json.Unmarshal(m.Result, &r); err != nil || len(r.Content) == 0 {
			t.Fatalf("%s %v", m.Result, err)
		}
		return r.Content[0].Text
	}
	has(t, w.ok("read_file", at("a.txt")), "first 1:")
	has(t, there(), "second 1:")
	has(t, there(), "[unchanged")
	w.ok("cache_clear", nil)
	has(t, w.ok("read_file", at("a.txt")), "first 1:")
	has(t, there(), "second 1:")
}
